"""The release of the SQL goes up when a release's migrations or functions change after its date."""

from __future__ import annotations

import re
import tomllib

from app.db.sql_files import SqlFiles
from tests.support.source import ROOT

BEFORE_NUMBERS = 1


def released() -> dict[int, str]:
    """Return the hashes of the releases that have their date."""
    entries = tomllib.loads((ROOT / "sql" / "releases.toml").read_text())["released"]
    return {int(number): digest for number, digest in entries.items()}


def has_a_date() -> bool:
    """Return whether the newest version of the changelog is released."""
    heading = re.search(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heading
    return re.search(r" - \d{4}-\d{2}-\d{2}$", heading.group()) is not None


def test_a_released_number_has_the_files_that_were_released() -> None:
    """When this fails, a file changed after its release: raise `release` in sql/releases.toml."""
    files = SqlFiles.read()
    assert released().get(files.release, files.digest) == files.digest


def test_numbers_go_up_by_one() -> None:
    number = SqlFiles.read().release
    newest = max(released(), default=BEFORE_NUMBERS)
    assert number == newest + 1 or number in released()
    assert sorted(released()) == list(range(BEFORE_NUMBERS + 1, newest + 1))


def test_a_release_with_a_date_has_its_hash_on_record() -> None:
    files = SqlFiles.read()
    line = f'{files.release} = "{files.digest}"'
    assert not has_a_date() or files.release in released(), f"add to sql/releases.toml: {line}"
