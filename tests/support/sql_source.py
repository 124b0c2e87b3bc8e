"""The SQL functions' own files, for the guards, and who calls them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.support.source import ROOT, python_files, relative, strings

FUNCTIONS = ROOT / "sql" / "functions"
# What production runs; benchmarks and tests call functions too, but none is there for them.
CALLING = ("app", "dispatcher", "rvq")
CALL = re.compile(r"\brvq\.(\w+)\(")


def function_files() -> list[Path]:
    """Return the file of each function, in the order of their names."""
    return sorted(FUNCTIONS.rglob("*.sql"), key=lambda path: path.name)


@cache
def callers() -> dict[str, list[str]]:
    """Return who calls each function: functions (`rvq.end_tasks`), then files (`app/admin/store.py`)."""
    found: dict[str, list[str]] = {path.stem: [] for path in function_files()}
    for path in function_files():
        body = re.sub(r"^(--|COMMENT ON) .*$", "", path.read_text(), flags=re.MULTILINE)
        for name in sorted(set(CALL.findall(body)) - {path.stem}):
            found.setdefault(name, []).append(f"rvq.{path.stem}")
    for path in python_files(*CALLING):
        for name in sorted(set(CALL.findall("\n".join(strings(path))))):
            found.setdefault(name, []).append(relative(path))
    return found
