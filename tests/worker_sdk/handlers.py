"""Handlers that run in processes of their own.

They print what they do, and wait for what the test controls: nothing here sleeps.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar, Literal

from worker_sdk import Handler, SubTask


def say(*words: object) -> None:
    """Print a line with one write, so that the lines of several processes do not mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Double(Handler):
    poll_seconds = (0.01, 0.05)

    def handle(self, sub_task: SubTask) -> Any:
        return sub_task.payload * 2


class Waits(Handler):
    """A handler that runs until a line comes on stdin, or for ever when stdin is no pipe of the test."""

    concurrency = 1
    poll_seconds = (0.01, 0.05)
    lease_seconds = 3

    def setup(self) -> None:
        say("setup")

    def handle(self, sub_task: SubTask) -> Any:
        say("started", sub_task.id, os.getpid())
        return sys.stdin.readline().strip()

    def teardown(self) -> None:
        say("teardown")


class Deaf(Waits):
    """A handler that ignores what it is told, and is given no time."""

    grace_seconds = 0.0

    def handle(self, sub_task: SubTask) -> Any:
        say("started", sub_task.id, os.getpid())
        threading.Event().wait()


class DeafProcess(Deaf):
    executor: ClassVar[Literal["thread", "process"]] = "process"


class Hasty(Waits):
    flush_seconds = 0.5


class Obeys(Deaf):
    def handle(self, sub_task: SubTask) -> Any:
        say("started", sub_task.id, os.getpid())
        sub_task.cancelled.wait()
        say("obeyed")
        sub_task.raise_if_cancelled()


class Process(Handler):
    """A handler that does in a process of its own what the payload says."""

    executor: ClassVar[Literal["thread", "process"]] = "process"
    concurrency = 1
    poll_seconds = (0.01, 0.05)
    lease_seconds = 1

    def handle(self, sub_task: SubTask) -> Any:
        match sub_task.payload:
            case "pid":
                return os.getpid()
            case "die":
                if sub_task.attempt == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                return "second life"
            case "exit":
                os._exit(7)
            case "obey":
                sub_task.cancelled.wait()
                sub_task.raise_if_cancelled()
            case "deaf":
                threading.Event().wait()
            case "signals of a program":
                # A program that the handler starts has the default signal handlers: SIGTERM ends it.
                program = subprocess.Popen(["sleep", "1000"])
                program.terminate()
                return program.wait()
            case other:
                return other
        return None


class NoSetup(Process):
    def setup(self) -> None:
        raise RuntimeError("the model is missing")


class Terminated(Handler):
    """A handler that forks, and terminates the fork, as a pool of processes does."""

    concurrency = 1
    poll_seconds = (0.01, 0.05)

    def handle(self, sub_task: SubTask) -> Any:
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            # Python drops signals that come before a fork is ready, and pause() would miss one that comes
            # just before it.
            os.write(tell, b"x")
            ends_at = time.monotonic() + 10
            while time.monotonic() < ends_at:
                pass
            os._exit(0)
        os.read(ready, 1)
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
