"""The guard of one runner: a small process that starts it, waits, and ends whatever it leaves behind.

A handler's programs and forks outlive the runner when it is killed or crashes, and some leave its process
group. The guard is their parent then ("subreaper", prctl(2)), as init is in a container. It also ends
everything when the worker dies, even a runner that is busy in C.

It runs this file alone, before the SDK is loaded, so that it stays small and forks without threads. To the
worker it writes two numbers into the lifeline: the runner's pid, and at the end its exit code. The worker
ends the lifeline to have the runner killed.
"""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
END_SECONDS = 5.0  # how long the guard tries to end what is left
TRACKER_SECONDS = 1.0  # of it, how long multiprocessing may take to free the shared memory of the dead


def main(pipe: int, lifeline: int, run: Callable[[int], None]) -> None:
    """Call `run(pipe)` in the runner, and guard it in this process. Raises SystemExit in both."""
    guard = os.getpid()
    open_standard_streams()
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    runner = os.fork()
    if runner == 0:
        os.close(lifeline)
        os.setsid()  # signals from the terminal are the worker's alone
        _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == guard:
            run(pipe)
        sys.exit(0)
    os.close(pipe)
    _guard(runner, lifeline)


def open_standard_streams() -> None:
    """Open /dev/null where one is closed. A connection would get its number, and what is printed."""
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(fd, True)
    os.close(fd)


def _guard(runner: int, lifeline: int) -> None:
    """Wait until the runner dies or the lifeline ends, and end everything."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    _tell(lifeline, runner)
    status = _reap().get(runner)
    while status is None:
        ready, _, _ = select.select([woken, lifeline], [], [])
        if lifeline in ready:
            os.kill(runner, signal.SIGKILL)
            status = os.waitpid(runner, 0)[1]
        else:
            os.read(woken, 4096)
            status = _reap().get(runner)
    _end_what_is_left(runner)
    _tell(lifeline, os.waitstatus_to_exitcode(status))
    os._exit(0)


def _tell(lifeline: int, number: int) -> None:
    with contextlib.suppress(OSError):  # the worker is gone
        os.write(lifeline, b"%d\n" % number)


def _reap() -> dict[int, int]:
    """Return the exit status of each child that has ended since."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
            ended[found[0]] = found[1]
    return ended


def _end_what_is_left(runner: int) -> None:
    """Kill every descendant of the runner: as parents die, their children become this process's."""
    started_at = time.monotonic()
    while (passed := time.monotonic() - started_at) < END_SECONDS:
        _reap()
        left = _children()
        if left is None:
            _kill(os.killpg, runner)
            return
        if not left:
            return
        for pid in left:
            if passed > TRACKER_SECONDS or not _is_tracker(pid):
                _kill(os.kill, pid)
        time.sleep(0.005)


def _kill(kill: Callable[[int, int], None], number: int) -> None:
    with contextlib.suppress(OSError):  # it is gone, or another user's
        kill(number, signal.SIGKILL)


def _children() -> list[int] | None:
    """Return this process's children, or None where the system does not tell."""
    me = str(os.getpid())
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return None
    return [int(pid) for pid in pids if _parent(pid) == me] if me in pids else None


def _parent(pid: str) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name, in brackets, may contain anything.
            return stat.read().rpartition(b")")[2].split()[1].decode()
    except (OSError, IndexError):
        return None


def _is_tracker(pid: int) -> bool:
    """Whether it frees the shared memory that its dead siblings left; it ends by itself after them."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as line:
            return b"multiprocessing.resource_tracker" in line.read()
    except OSError:
        return False


def _prctl(option: int, value: int) -> None:
    """Do without where there is no prctl: then what left the runner's process group is not ended."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
