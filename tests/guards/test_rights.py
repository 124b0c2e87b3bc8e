"""The rights of the API's and the dispatcher's role are exactly what their SQL functions need."""

from __future__ import annotations

import re

import pytest

from app.db.rights import PARTS
from tests.support.sql_source import CALL, callers, function_files

SOURCES = {
    path.stem: re.sub(r"^(--|COMMENT ON) .*$", "", path.read_text(), flags=re.MULTILINE)
    for path in function_files()
}
FOLDERS = {"api": "app/", "dispatcher": "dispatcher/"}
DEFINERS = {name for name, text in SOURCES.items() if "SECURITY DEFINER" in text}


def called_by(part: str) -> set[str]:
    """Return the functions that the part's Python calls."""
    folder = FOLDERS[part]
    return {name for name, found in callers().items() if any(one.startswith(folder) for one in found)}


def run_by(part: str) -> set[str]:
    """Return the functions that run with the rights of the part's role: a definer's run with its owner's."""
    seen: set[str] = set()
    left = called_by(part) & set(SOURCES)
    while left:
        name = left.pop()
        seen.add(name)
        if name not in DEFINERS:
            left |= (set(CALL.findall(SOURCES[name])) & set(SOURCES)) - seen
    return seen - DEFINERS


def writes_of(text: str) -> set[tuple[str, str]]:
    """Return (table, privilege) of what a function writes or locks; a row lock asks for UPDATE."""
    found = {(table, "INSERT") for table in re.findall(r"INSERT INTO rvq\.(\w+)", text)}
    found |= {(table, "UPDATE") for table in re.findall(r"UPDATE rvq\.(\w+)", text)}
    found |= {(table, "DELETE") for table in re.findall(r"DELETE FROM rvq\.(\w+)", text)}
    for statement in text.split(";"):
        if "DO UPDATE" in statement:
            found |= {(table, "UPDATE") for table in re.findall(r"INSERT INTO rvq\.(\w+)", statement)[-1:]}
        if "FOR UPDATE" in statement:
            found |= {(table, "UPDATE") for table in re.findall(r"FROM rvq\.(\w+) AS \w+", statement)}
    return found


@pytest.mark.parametrize("part", PARTS)
def test_a_part_may_write_what_its_functions_write_and_nothing_else(part: str) -> None:
    """When this fails, change PARTS in app/db/rights.py."""
    needed = set().union(*(writes_of(SOURCES[name]) for name in run_by(part)))
    granted = {
        (table, privilege)
        for table, privileges in PARTS[part].writes.items()
        for privilege in privileges.split(", ")
    }
    assert granted == needed


@pytest.mark.parametrize("part", PARTS)
def test_a_part_may_run_the_owners_functions_that_it_calls_and_no_others(part: str) -> None:
    called = called_by(part).union(*(CALL.findall(SOURCES[name]) for name in run_by(part)))
    assert set(PARTS[part].functions) == called & DEFINERS


@pytest.mark.parametrize("part", PARTS)
def test_a_part_may_use_the_sequences_that_its_functions_use(part: str) -> None:
    used = {name for one in run_by(part) for name in re.findall(r"nextval\('rvq\.(\w+)'\)", SOURCES[one])}
    assert set(PARTS[part].sequences) == used


@pytest.mark.parametrize("name", sorted(DEFINERS))
def test_what_runs_with_the_owners_rights_pins_its_search_path_and_is_not_for_everybody(name: str) -> None:
    assert "SET search_path = pg_catalog, pg_temp" in SOURCES[name]
    assert re.search(rf"^REVOKE ALL ON FUNCTION rvq\.{name}\([^)]*\) FROM PUBLIC;$", SOURCES[name], re.M)
