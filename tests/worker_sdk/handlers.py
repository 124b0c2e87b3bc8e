"""Handlers that run in processes of their own. They tell what they do on stdout, and wait on what the
test holds: nothing here sleeps."""

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, ClassVar, Literal

from worker_sdk import Handler, SubTask


def say(*words: object) -> None:
    """One write, so that lines of several processes do not mix."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Double(Handler):
    poll_seconds = (0.01, 0.05)

    def handle(self, sub_task: SubTask) -> Any:
        return sub_task.payload * 2


class Waits(Handler):
    """Runs until a line comes on stdin, or for ever when stdin is no pipe of the test's."""

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
    """Does not look at what it is told, and is given no time."""

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
    """Does in a process of its own what the payload says."""

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
                # What a child of the handler does on SIGTERM is its own affair: by default it ends.
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
    """Forks, and terminates the fork, as a pool of processes does."""

    concurrency = 1
    poll_seconds = (0.01, 0.05)

    def handle(self, sub_task: SubTask) -> Any:
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            # Python drops signals that come before a fork is ready; and pause() would overlook one
            # that comes just before it.
            os.write(tell, b"x")
            ends_at = time.monotonic() + 10
            while time.monotonic() < ends_at:
                pass
            os._exit(0)
        os.read(ready, 1)
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
