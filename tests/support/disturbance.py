"""A server that ends connections again and again, as one does that is restarted while others start."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg2

END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"


@contextlib.contextmanager
def closing_connections(url: str, application_name: str) -> Iterator[None]:
    """End all connections of this name for the block's time."""
    is_over = threading.Event()
    connection = psycopg2.connect(url)
    connection.autocommit = True

    def close() -> None:
        with contextlib.closing(connection), connection.cursor() as cursor:
            while not is_over.wait(0.001):
                cursor.execute(END, (application_name,))

    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
