"""The system account that the server runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from rvq.embedded.errors import EmbeddedError

CANDIDATES = ("postgres", "nobody", "daemon")
# Nothing of the caller's environment reaches the server: PGDATA, PGPORT or a locale would change it.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


@dataclass(frozen=True)
class Account:
    """The account that server processes are switched to; `uid` None: they keep ours."""

    uid: int | None = None
    gid: int | None = None

    def start(self, command: Sequence[str | Path], log: Path) -> int:
        """Start a server that outlives us, with its output in `log`; return its process id.

        A shell between us and it makes it nobody's child and leaves our terminal's session, so that
        Ctrl-C does not reach it and nobody has to wait for it.
        """
        script = 'log=$1; shift; "$@" >>"$log" 2>&1 </dev/null & echo $!'
        started = self.run(["/bin/sh", "-c", script, "sh", log, *command])
        return int(started.stdout)

    def run(self, command: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Run to the end, output captured; a program that this account may not execute exits with 126."""
        groups = None if self.uid is None else ()
        try:
            return subprocess.run(
                command,
                user=self.uid,
                group=self.gid,
                extra_groups=groups,
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                start_new_session=True,
                cwd="/",
                check=False,
            )
        except PermissionError as error:
            return subprocess.CompletedProcess(list(command), 126, "", str(error))

    def give(self, path: Path) -> None:
        """Make the account the owner of a file or folder, and keep everyone else out."""
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)
        path.chmod(0o700 if path.is_dir() else 0o600)

    def can_enter(self, folder: Path) -> bool:
        return self.run(["/bin/sh", "-c", 'cd "$1"', "sh", folder]).returncode == 0


def is_own_folder(path: Path) -> bool:
    """Return whether this is a folder, not a link to one, that belongs to the account we run as."""
    state = path.lstat()
    return stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid()


@cache
def server_account() -> Account:
    """Return our own account, or as root an unprivileged one that exists on the machine.

    Raise EmbeddedError for an account that PostgreSQL does not run as.
    """
    if os.geteuid() != 0:
        _require_name(os.geteuid())
        return Account()
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(f"PostgreSQL can't run as root, and none of {', '.join(CANDIDATES)} exists here")


def _require_name(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedError(
            f"PostgreSQL does not run as an account without a name: add one with the user id {uid} (useradd)"
        ) from None
