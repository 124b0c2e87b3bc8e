"""The SQL functions' files: short, narrow, each of them called, and named in the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.source import ROOT, relative
from tests.support.sql_source import callers, function_files

LINES, WIDTH = 69, 120
# They are released, and must never change.
OLD_MIGRATIONS = 5


def test_functions_are_short() -> None:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in function_files()}
    assert {name: length for name, length in lengths.items() if length > LINES} == {}


def test_lines_are_narrow() -> None:
    newer = sorted((ROOT / "sql" / "migrations").glob("*.sql"))[OLD_MIGRATIONS:]
    wide = [
        f"{relative(path)}:{number}"
        for path in function_files() + newer
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > WIDTH
    ]
    assert wide == []


def test_the_readme_names_every_function_in_its_folder_and_what_is_called_from_outside_in_bold() -> None:
    rows = re.findall(r"^\| `(\w+)/` \| [^|]+ \| (.*) \|$", (ROOT / "sql" / "README.md").read_text(), re.M)
    named = {(folder, name) for folder, names in rows for name in names.split(", ")}
    assert named == {
        (path.parent.name, f"`{path.stem}`" if inner(path) else f"**`{path.stem}`**")
        for path in function_files()
    }


def inner(path: Path) -> bool:
    """Return whether only other functions call it."""
    return all(caller.startswith("rvq.") for caller in callers()[path.stem])


def test_every_function_is_called() -> None:
    assert [name for name, found in callers().items() if not found] == []


def test_every_function_that_is_called_is_there() -> None:
    """Two are written by rvq.write_readers."""
    there = {path.stem for path in function_files()} | {"payloads_of", "bodies_of"}
    assert set(callers()) - there == set()


@pytest.mark.parametrize(
    ("name", "caller"),
    [
        ("hold_door", "rvq.cancel_task"),
        ("create_partitions", "app/db/partitions.py"),
        ("list_due_hosts", "dispatcher/statements.py"),
        ("day_at", "rvq/doctor/store.py"),
    ],
)
def test_callers_in_sql_and_in_python_are_found(name: str, caller: str) -> None:
    assert caller in callers()[name]
