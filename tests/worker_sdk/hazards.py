"""Handlers that harm the process they run in: what their payload names, and then its number is the result.

Each says which sub_task it began, so that a test sees what ran twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import gc
import locale
import multiprocessing
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tests.worker_sdk.handlers import say
from worker_sdk import Handler, SubTask

TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Hazards(Handler):
    concurrency = 1
    poll_seconds = (0.01, 0.05)
    lease_seconds = 60
    grace_seconds = 1.0

    def handle(self, sub_task: SubTask) -> Any:
        say("began", sub_task.id, sub_task.attempt, os.getpid())
        hazard, number = sub_task.payload
        if hazard == "look":
            return state()
        if sub_task.attempt == 1:
            result = globals()[hazard]()
            return number if result is None else result
        return number


class Timed(Hazards):
    """The same, with a second for each attempt."""

    lease_seconds = 20

    timeout_seconds = 1.0


class Brief(Hazards):
    """The same, with a lease that is over soon."""

    lease_seconds = 2


class Patient(Brief):
    """It ends when it is told to, and says so."""

    def handle(self, sub_task: SubTask) -> Any:
        say("began", sub_task.id, sub_task.attempt, os.getpid())
        if sub_task.attempt == 1:
            sub_task.cancelled.wait()
            say("told", sub_task.id)
        return sub_task.attempt


def state() -> dict[str, Any]:
    """Return what a handler can change of its process."""
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "locale": locale.setlocale(locale.LC_ALL),
        "timers": [signal.getitimer(timer) for timer in TIMERS],
        "signals": [str(signal.getsignal(number)) for number in (signal.SIGALRM, signal.SIGUSR1)],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "recursion limit": sys.getrecursionlimit(),
        "default timeout": socket.getdefaulttimeout(),
        "collector": [gc.isenabled(), gc.get_threshold(), gc.get_debug()],
        "stdout": [sys.stdout.closed, os.fstat(1).st_ino],
        "stderr": [sys.stderr.closed, os.fstat(2).st_ino],
    }


def plain() -> None:
    """Do no harm."""


# Forks. In each, what follows `if os.fork() == 0` runs in the fork, which must not go on as the worker.


def _fork(in_fork: Callable[[], Any]) -> Any:
    pid = os.fork()
    if pid == 0:
        return in_fork()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def a_fork_that_returns() -> Any:
    code = _fork(lambda: "from the fork")
    return code or None


def a_fork_that_exits() -> Any:
    code = _fork(lambda: sys.exit(3))
    assert code == 3
    return None


def a_fork_that_fails_to_exec() -> Any:
    code = _fork(lambda: os.execvp("/nonexistent", ["nonexistent"]))
    assert code == 1
    return None


def a_fork_that_raises_keyboard_interrupt() -> Any:
    def interrupt() -> None:
        raise KeyboardInterrupt

    assert _fork(interrupt) == 1


def a_fork_by_a_thread() -> None:
    thread = threading.Thread(target=a_fork_that_returns)
    thread.start()
    thread.join()


def a_fork_that_lives_on() -> None:
    """Leave a fork behind that holds all that was open."""
    if os.fork() == 0:
        signal.pause()


def a_process_of_multiprocessing_by_fork() -> None:
    _multiprocess("fork")


def a_process_of_multiprocessing_by_spawn() -> None:
    _multiprocess("spawn")


def a_process_of_multiprocessing_by_forkserver() -> None:
    _multiprocess("forkserver")


def _multiprocess(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    process = context.Process(target=sys.exit, args=(5,))
    process.start()
    process.join()
    assert process.exitcode == 5


def a_process_that_is_terminated_at_once() -> None:
    """The signal comes while the fork is not ready yet, as often as not."""
    for _ in range(20):
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
        process.start()
        process.terminate()
        process.join()
        assert process.exitcode == -signal.SIGTERM


def a_pool_of_processes() -> None:
    with ProcessPoolExecutor(2) as pool:
        assert list(pool.map(abs, range(10))) == list(range(10))


# What ends the process, or would.


def os_exit() -> None:
    os._exit(7)


def memory_death() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def a_real_time_signal() -> None:
    os.kill(os.getpid(), 40)


def an_alarm_that_is_left() -> None:
    signal.alarm(1)
    signal.setitimer(signal.ITIMER_PROF, 1.0)


def an_alarm_that_comes() -> None:
    signal.alarm(1)
    time.sleep(1000 if threading.current_thread() is threading.main_thread() else 1.5)


def faulthandler_that_is_left() -> None:
    faulthandler.dump_traceback_later(1.0, exit=True)


# What changes the state of the process.


def stdout_closed() -> None:
    sys.stdout.close()


def stderr_closed() -> None:
    sys.stderr.close()


def standard_fds_closed() -> None:
    for fd in (0, 1, 2):
        os.close(fd)


def chdir() -> None:
    os.chdir("/")


def default_timeout() -> None:
    socket.setdefaulttimeout(0.0001)


def environment() -> None:
    os.environ.clear()
    os.environ.update({"HTTP_PROXY": "http://127.0.0.1:1", "http_proxy": "http://127.0.0.1:1"})


def another_locale() -> None:
    locale.setlocale(locale.LC_ALL, "C.UTF-8")


def collector() -> None:
    gc.disable()
    gc.set_threshold(1, 1, 1)


def low_recursion_limit() -> None:
    # As low as the thread's own depth allows.
    for limit in range(5, 500):
        try:
            sys.setrecursionlimit(limit)
        except RecursionError:
            continue
        return


def high_recursion_limit_and_a_deep_result() -> Any:
    sys.setrecursionlimit(10**8)
    value: list[Any] = []
    for _ in range(1_000_000):
        value = [value]
    return value


def signals() -> None:
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR2,))


# Threads and programs that are left.


def a_thread_that_is_left() -> None:
    threading.Thread(target=threading.Event().wait, name="left-behind").start()


def a_program_that_is_left() -> None:
    """Leave two: one of them in a session of its own."""
    for new_session in (False, True):
        program = subprocess.Popen(["sleep", "1000"], start_new_session=new_session)
        say("program", program.pid)


def a_program_and_then_nothing() -> None:
    a_program_that_is_left()
    threading.Event().wait()


def a_daemon_and_then_death() -> None:
    """Leave a process that has left its session, its group and its parent."""
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid:
            say("program", pid)
            os._exit(0)
        signal.pause()
    a_program_that_is_left()
    os.kill(os.getpid(), signal.SIGKILL)


def busy_in_c() -> None:
    """Hold the interpreter's lock for ever."""
    a_program_that_is_left()
    say("busy")
    ctypes.PyDLL(None).sleep(1000)


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


# Results and ends.


def a_huge_result() -> str:
    return "x" * (50 << 20)


def a_result_as_large_as_is_allowed() -> str:
    return "x" * ((1 << 20) - 2)


def a_generator() -> Any:
    return (number for number in range(3))


def a_coroutine() -> Any:
    return asyncio.sleep(0)


def keyboard_interrupt() -> None:
    raise KeyboardInterrupt


def generator_exit() -> None:
    raise GeneratorExit


def stop_iteration() -> None:
    raise StopIteration


def system_exit() -> None:
    sys.exit(0)


def an_exception_that_bites() -> None:
    class Bites(BaseException):
        def __str__(self) -> str:
            raise KeyboardInterrupt

        __repr__ = __str__

    raise Bites


# The runner's pipe.


def _sockets() -> list[int]:
    """Return the numbers of the open sockets above the standard streams."""
    found = []
    for fd in range(3, 100):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                found.append(fd)
    return found


def garbage_in_the_pipe() -> None:
    for fd in _sockets():
        os.write(fd, b"hello, is this the log?\n")


def all_fds_closed() -> None:
    os.closerange(3, 4096)


def another_file_in_the_pipes_place() -> None:
    sockets = _sockets()
    os.closerange(3, 4096)
    for fd in sockets:
        os.dup2(os.open("/dev/null", os.O_RDWR), fd)
