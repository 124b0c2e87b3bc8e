"""Procrastinate: deferred in batches; each sub_task is fetched and finished by statements of its own.

    python -m bench.peers.drivers.procrastinate_driver install|worker|produce URL

Fan-in is home-made, since it has none: a row counts down in each handler, the last one defers the callback.
"""

from __future__ import annotations

import logging
import sys

import psycopg
import psycopg_pool
import uvloop
from procrastinate import App, PsycopgConnector

from bench.peers.drivers.lines import COUNTERS, Payload, chosen_role, say_called, say_ready, serve_producer

CONCURRENCY = 10
CONNECTIONS = 10
COUNT_DOWN = "UPDATE fan_in SET left_over = left_over - 1 WHERE task = %s RETURNING left_over"
IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))"


class Tasks:
    """The application that worker and producer share; only the worker needs `pool`, for the counters."""

    def __init__(self, url: str, pool: psycopg_pool.AsyncConnectionPool | None = None) -> None:
        self.pool = pool
        self.app = App(connector=PsycopgConnector(conninfo=url, min_size=2, max_size=CONNECTIONS))
        self.single = self.app.task(name="single")(self._single)
        self.part = self.app.task(name="part")(self._part)
        self.callback = self.app.task(name="callback")(self._callback)

    async def _single(self, number: int, text: str) -> None: ...

    async def _part(self, task: int, number: int, text: str) -> None:
        assert self.pool
        async with self.pool.connection() as connection:
            row = await (await connection.execute(COUNT_DOWN, (task,))).fetchone()
        if row == (0,):
            await self.callback.defer_async(task=task)

    async def _callback(self, task: int) -> None:
        say_called(task)


async def install(url: str) -> None:
    async with Tasks(url).app.open_async() as app:
        await app.schema_manager.apply_schema_async()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(COUNTERS)
    say_ready()


async def work(url: str) -> None:
    pool = psycopg_pool.AsyncConnectionPool(
        url, min_size=4, max_size=4, kwargs={"autocommit": True}, open=False
    )
    async with pool, Tasks(url, pool).app.open_async() as app:
        say_ready("procrastinate", "psycopg")
        await app.run_worker_async(
            concurrency=CONCURRENCY, install_signal_handlers=False, delete_jobs="successful"
        )


async def produce(url: str) -> None:
    tasks = Tasks(url)
    async with (
        tasks.app.open_async(),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
    ):

        async def enqueue(payloads: list[Payload]) -> None:
            await tasks.single.batch_defer_async(*payloads)

        async def is_empty() -> bool:
            return bool(await (await connection.execute(IS_EMPTY)).fetchone() == (True,))

        async def fan_out(task: int, payloads: list[Payload]) -> None:
            await connection.execute("INSERT INTO fan_in VALUES (%s, %s)", (task, len(payloads)))
            await tasks.part.batch_defer_async(*payloads)

        await serve_producer(enqueue, is_empty, fan_out)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    uvloop.run(chosen_role({"install": install, "worker": work, "produce": produce})(sys.argv[2]))
