"""The data folder of a local stack, and the two locks that keep a second one out of it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rvq.embedded.account import is_own_folder
from rvq.errors import CommandError
from rvq.waiting import wait_until

CHILDREN_END_SECONDS = 45


def default_folder() -> Path:
    """Return where this account keeps data; for root a place that PostgreSQL's own account can enter."""
    usual = Path("/var/lib/rvq") if os.geteuid() == 0 else _data_home() / "rvq"
    for folder in (usual, Path(tempfile.gettempdir()) / f"rvq-{os.geteuid()}"):
        with contextlib.suppress(OSError):
            if not folder.is_absolute():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK) and is_own_folder(folder):
                return folder
    raise CommandError("no folder to keep data in: give one with --data")


def _data_home() -> Path:
    """Return the XDG base directory. It is not absolute for an account that has no home: `~` as it stands."""
    given = Path(os.environ.get("XDG_DATA_HOME", ""))
    return given if given.is_absolute() else Path(os.path.expanduser("~/.local/share"))


@contextlib.contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises CommandError when another stack has it; a killed one gives it up."""
    with (folder / "up.lock").open("a") as file:
        if not _try_lock(file.fileno()):
            raise CommandError(f"a stack runs in {folder} already: stop it, or choose another --data")
        yield


@contextlib.contextmanager
def children_lock(folder: Path) -> Iterator[int]:
    """Yield a descriptor for children to inherit: it holds a lock as long as one of them lives.

    Whoever has it knows that no child of a killed stack is left. Raises CommandError when some stay.
    """
    with (folder / "children.lock").open("a") as file:
        if not wait_until(lambda: _try_lock(file.fileno()), CHILDREN_END_SECONDS):
            raise CommandError(f"processes of an earlier stack in {folder} do not end")
        yield file.fileno()


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
