"""A copy of this checkout as the next release might be: every function replaced, one renamed, one with a new
parameter, and a migration. Programs are started from it by its `environment`."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.db.sql_files import SqlFiles
from tests.support.source import ROOT

COPIED = ("app", "dispatcher", "sql", "gunicorn.conf.py")
MIGRATION = """
ALTER TABLE rvq.queues ADD COLUMN note text;
COMMENT ON COLUMN rvq.queues.note IS 'What the next release wants to know of a queue.';
"""
RENAMED, NEW_NAME = "read_event", "read_body_of_event"
LIST = "rvq.list_tasks(p_status text, p_limit integer, p_before bigint)"


@dataclass(frozen=True)
class NextRelease:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Return what makes Python take our packages from there, and not from here."""
        return {"PYTHONPATH": str(self.folder), "PYTHONSAFEPATH": "1"}

    @property
    def gunicorn_config(self) -> Path:
        return self.folder / "gunicorn.conf.py"


def make_next_release(folder: Path) -> NextRelease:
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    files = SqlFiles.read(folder / "sql")
    releases = folder / "sql" / "releases.toml"
    _edit(releases, f"release = {files.release}", f"release = {files.release + 1}")
    (folder / "sql" / "migrations" / f"{files.newest + 1:04}_add_note.sql").write_text(MIGRATION)
    for path in sorted((folder / "sql" / "functions").rglob("*.sql")):
        path.write_text(f"-- As of the next release.\n{path.read_text()}")
    read = folder / "sql" / "functions" / "read"
    _edit(read / "list_tasks.sql", LIST, LIST.replace("bigint)", "bigint, p_queue text DEFAULT NULL)"))
    _edit(read / "list_tasks.sql", "(text, integer, bigint)", "(text, integer, bigint, text)")
    _edit(read / f"{RENAMED}.sql", RENAMED, NEW_NAME)
    (read / f"{RENAMED}.sql").rename(read / f"{NEW_NAME}.sql")
    _edit(folder / "app" / "partner" / "store.py", f"rvq.{RENAMED}(", f"rvq.{NEW_NAME}(")
    return NextRelease(folder)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} has no {old}"
    path.write_text(re.sub(re.escape(old), new, text))
