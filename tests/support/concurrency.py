"""Two things at once, without sleeping: run in the background, and wait until PostgreSQL says "blocked"."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import psycopg2

from app.db import Connection
from rvq import waiting

P = ParamSpec("P")
T = TypeVar("T")
POLL_SECONDS = 0.005


@contextlib.contextmanager
def background(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Iterator[Future[T]]:
    """Run `call` in a thread for the block's time; `future.result(timeout)` has its answer."""
    executor = ThreadPoolExecutor(max_workers=1)
    try:
        yield executor.submit(call, *args, **kwargs)
    finally:
        executor.shutdown(wait=True)


def wait_until(condition: Callable[[], object], what: str, deadline_seconds: float = 15) -> None:
    """Ask again until it holds. Fails with `what` did not happen; the time is only a safety net."""
    if not waiting.wait_until(condition, deadline_seconds, POLL_SECONDS):
        raise AssertionError(f"did not happen in {deadline_seconds} s: {what}")


def wait_until_blocked(observer: Connection, waiting: Connection, by: Connection | None = None) -> None:
    """Until `waiting` waits for a lock (that `by` holds). `observer` is a third, idle connection."""
    pid = waiting.info.backend_pid
    holder = by.info.backend_pid if by else None

    def blocked() -> bool:
        with observer.cursor() as cursor:
            cursor.execute("SELECT pg_blocking_pids(%s)", (pid,))
            row = cursor.fetchone()
        blockers = row[0] if row else []
        return holder in blockers if holder else bool(blockers)

    wait_until(blocked, f"backend {pid} waits for a lock of {holder or 'anyone'}")


def is_over(connection: Connection) -> bool:
    """Whether the server has ended this connection."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except psycopg2.Error:
        return True
    return False
