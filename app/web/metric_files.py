"""The files in which the API's processes keep their metrics, and what becomes of those of ended processes.

prometheus_client writes `counter_PID.db` and `histogram_PID.db`, adds all of them up at each scrape, and
never deletes one: what a process has counted must not be lost with it. So the master folds the values of
ended processes into `counter_dead.db` and `histogram_dead.db`. A lock keeps a scrape from seeing the same
value in both places, or in neither.

prometheus_client decides when it is imported whether it keeps files, so functions import it here.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

KINDS = ("counter", "histogram")
# Seconds. A scrape takes some milliseconds, and the master has other things to do.
PATIENCE, PAUSE = 0.5, 0.01


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep the files as they are: nothing is folded meanwhile."""
    with _lock_file(folder) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


def fold_ended(folder: Path, pid: int) -> None:
    """Add what process `pid`, which has ended, counted to the files of the dead, and delete its own.

    When scrapes leave no gap it is put off: the next call does it. Raise OSError.
    """
    with _lock_file(folder) as descriptor:
        if not _lock_alone(descriptor):
            log.warning("metrics of ended processes are kept for now: scrapes are in the way")
            return
        for kind in KINDS:
            _fold_kind(folder, kind, pid)


def _fold_kind(folder: Path, kind: str, pid: int) -> None:
    ended = [file for file in folder.glob(f"{kind}_*.db") if _has_ended(file, pid)]
    if not ended:
        return
    from prometheus_client.mmap_dict import MmapedDict

    total, unfinished = folder / f"{kind}_dead.db", folder / f"{kind}_dead.unfinished"
    sums = _sums([*ended, *([total] if total.exists() else [])])
    unfinished.unlink(missing_ok=True)
    values = MmapedDict(str(unfinished))  # type: ignore[no-untyped-call]
    for key, value in sums.items():
        values.write_value(key, value, 0.0)  # type: ignore[no-untyped-call]
    values.close()  # type: ignore[no-untyped-call]
    unfinished.rename(total)
    for file in ended:
        file.unlink()


def _sums(files: list[Path]) -> dict[str, float]:
    """Return the sum of each value. A file that its process's end left unfinished counts for what it has."""
    from prometheus_client.mmap_dict import MmapedDict

    sums: defaultdict[str, float] = defaultdict(float)
    for file in files:
        with contextlib.suppress(struct.error, RuntimeError, ValueError):
            for key, value, _, _ in MmapedDict.read_all_values_from_file(str(file)):  # type: ignore[no-untyped-call]
                json.loads(key)
                sums[key] += value
    return sums


def _has_ended(file: Path, ended: int) -> bool:
    """Return whether the process of this file is `ended`, or is no more: then it was put off before.

    A number is given again, so that process may exist: of another owner's it is known that it is not ours.
    """
    pid = file.stem.rpartition("_")[2]
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, PermissionError):
        return True
    return int(pid) == ended


def _lock_alone(descriptor: int) -> bool:
    give_up = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                return False
            time.sleep(PAUSE)
        else:
            return True


@contextlib.contextmanager
def _lock_file(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
