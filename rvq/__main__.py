"""`rvq COMMAND` runs the command's module and turns expected failures into a message and a status."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import os
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, cast

from app.db.errors import DatabaseError
from app.db.migrations import MigrationError
from app.db.sql_files import SqlFilesError
from app.settings import SettingsError
from rvq import commands
from rvq.embedded import EmbeddedError
from rvq.errors import CommandError
from rvq.local.processes import ProcessError

EXPECTED = (
    CommandError,
    DatabaseError,
    EmbeddedError,
    MigrationError,
    ProcessError,
    SettingsError,
    SqlFilesError,
)


class Command(Protocol):
    """The members of a module in `commands/`."""

    HELP: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Mapping[str, str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0: done; 1: failed, and standard error says why; 2: wrong usage; 130: interrupted."""
    arguments = _parser().parse_args(argv)
    command = cast(Command, arguments.command)
    try:
        return command.run(arguments, os.environ)
    except EXPECTED as error:
        print(f"rvq: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rvq", description="RVQ: tasks of many sub_tasks, one signed webhook."
    )
    parser.add_argument("--version", action="version", version=f"rvq {importlib.metadata.version('rvq')}")
    names = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in pkgutil.iter_modules(commands.__path__):
        command = cast(Command, importlib.import_module(f"{commands.__name__}.{module.name}"))
        subparser = names.add_parser(module.name, help=command.HELP, description=command.HELP)
        command.add_arguments(subparser)
        subparser.set_defaults(command=command)
    return parser


if __name__ == "__main__":
    sys.exit(main())
