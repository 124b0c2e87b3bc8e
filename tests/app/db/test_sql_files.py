"""The folder of SQL files: names and numbers must be right."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.db.sql_files import SqlFiles, SqlFilesError


def write(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SELECT 1")
    (folder / "releases.toml").write_text("release = 3")
    return folder


def test_migrations_come_by_number_and_functions_by_name(tmp_path: Path) -> None:
    write(tmp_path, "migrations/0002_b.sql", "migrations/0001_a.sql", "functions/claim.sql", "README.md")
    files = SqlFiles.read(tmp_path)
    assert {n: file.name for n, file in files.migrations.items()} == {1: "a", 2: "b"}
    assert list(files.functions) == ["claim"]
    assert (files.newest, files.release) == (2, 3)


def test_functions_come_in_the_order_of_their_names_whatever_their_folder(tmp_path: Path) -> None:
    write(tmp_path, "migrations/0001_a.sql", "functions/x/b.sql", "functions/y/z/a.sql", "functions/c.sql")
    assert list(SqlFiles.read(tmp_path).functions) == ["a", "b", "c"]


def test_a_function_that_two_folders_have_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "migrations/0001_a.sql", "functions/read/task.sql", "functions/finish/task.sql")
    with pytest.raises(SqlFilesError, match=r"read/task\.sql: another folder has a function of this name"):
        SqlFiles.read(tmp_path)


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("migrations/0002_a.sql",),
        ("migrations/0001_a.sql", "migrations/0003_b.sql"),
        ("migrations/0001_a.sql", "migrations/0001_b.sql"),
        ("migrations/1_a.sql",),
        ("migrations/0001-a.sql",),
        ("migrations/0001_a.sql", "functions/Claim.sql"),
        ("migrations/0001_a.sql", "functions/claim/2nd.sql"),
    ],
)
def test_a_gap_a_double_or_a_strange_name_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(SqlFilesError):
        SqlFiles.read(write(tmp_path, *names))


def test_a_changed_letter_changes_the_hash(tmp_path: Path) -> None:
    write(tmp_path, "migrations/0001_a.sql")
    before = SqlFiles.read(tmp_path).migrations[1].sha256
    (tmp_path / "migrations/0001_a.sql").write_text("SELECT 2")
    assert SqlFiles.read(tmp_path).migrations[1].sha256 != before


@pytest.mark.parametrize("text", ["", "release = 0", 'release = "3"', "release = true", "release ="])
def test_a_folder_that_does_not_say_its_release_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, "migrations/0001_a.sql")
    (tmp_path / "releases.toml").write_text(text)
    with pytest.raises(SqlFilesError, match="release"):
        SqlFiles.read(tmp_path)
