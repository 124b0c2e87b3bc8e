"""The SQL that belongs to this code: numbered migrations, one file for each function, and their release."""

from __future__ import annotations

import hashlib
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from app.paths import sql_folder

MIGRATION_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql", re.ASCII)
FUNCTION_NAME = re.compile(r"([a-z][a-z0-9_]*)\.sql", re.ASCII)


class SqlFilesError(Exception):
    """The folder of SQL files is not in order; the code is at fault, not the database."""


@dataclass(frozen=True)
class SqlFile:
    """One file: `name` is the file's, without number and suffix; `text` is executed as it is."""

    name: str
    text: str

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class SqlFiles:
    """All files: `migrations` by version, without gaps from 1; `functions` by name, in that order.

    `release` counts up: of two releases, the one with the higher number is the newer.
    """

    migrations: dict[int, SqlFile]
    functions: dict[str, SqlFile]
    release: int = 1

    @property
    def newest(self) -> int:
        return max(self.migrations, default=0)

    @property
    def digest(self) -> str:
        """Return a hash of all files: two releases with the same one have the same schema."""
        names = [f"{version:04} {file.sha256}" for version, file in sorted(self.migrations.items())]
        names += [f"{name} {file.sha256}" for name, file in sorted(self.functions.items())]
        return hashlib.sha256("\n".join(names).encode()).hexdigest()

    @classmethod
    def read(cls, folder: Path | None = None) -> SqlFiles:
        """Read everything in `folder` (ours when None). Raise SqlFilesError for a wrong name or number."""
        folder = folder or sql_folder()
        return cls(
            _read_migrations(folder / "migrations"),
            _read_functions(folder / "functions"),
            _read_release(folder / "releases.toml"),
        )


def _read_migrations(folder: Path) -> dict[int, SqlFile]:
    migrations: dict[int, SqlFile] = {}
    for path in sorted(folder.glob("*.sql")):
        number, name = _match(MIGRATION_NAME, path)
        if int(number) != len(migrations) + 1:
            raise SqlFilesError(f"{path.name}: expected number {len(migrations) + 1:04}")
        migrations[int(number)] = SqlFile(name, path.read_text())
    if not migrations:
        raise SqlFilesError(f"no migrations in {folder}")
    return migrations


def _read_functions(folder: Path) -> dict[str, SqlFile]:
    """Read the functions of all folders below; PostgreSQL knows no folders, so a name must not come twice."""
    functions: dict[str, SqlFile] = {}
    for path in sorted(folder.rglob("*.sql"), key=lambda path: path.name):
        (name,) = _match(FUNCTION_NAME, path)
        if name in functions:
            raise SqlFilesError(f"{path}: another folder has a function of this name")
        functions[name] = SqlFile(name, path.read_text())
    return functions


def _read_release(path: Path) -> int:
    try:
        release = tomllib.loads(path.read_text())["release"]
    except (OSError, tomllib.TOMLDecodeError, KeyError) as error:
        raise SqlFilesError(f"{path} does not say which release this is: {error!r}") from None
    if type(release) is not int or release < 1:
        raise SqlFilesError(f"{path}: the release must be a number from 1 on")
    return release


def _match(pattern: re.Pattern[str], path: Path) -> tuple[str, ...]:
    found = pattern.fullmatch(path.name)
    if not found:
        raise SqlFilesError(f"{path}: its name must look like {pattern.pattern}")
    return found.groups()
