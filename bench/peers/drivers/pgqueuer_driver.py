"""PgQueuer: batches of enqueue, batched dequeue and batched completion log, one asyncpg connection a manager.

    python -m bench.peers.drivers.pgqueuer_driver install|worker|produce URL

Fan-in is home-made, since it has none: a row counts down in each handler, the last one enqueues the callback.
"""

from __future__ import annotations

import json
import sys

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, Job, PgQueuer, Queries

from bench.peers.drivers.lines import COUNTERS, Payload, chosen_role, say_called, say_ready, serve_producer

DEQUEUE = 500
COUNT_DOWN = "UPDATE fan_in SET left_over = left_over - 1 WHERE task = $1 RETURNING left_over"
IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM pgqueuer)"


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.execute(COUNTERS)
    await connection.close()
    say_ready()


async def work(url: str) -> None:
    connection = await asyncpg.connect(url)
    pool = await asyncpg.create_pool(url, min_size=4, max_size=4)
    manager = PgQueuer(AsyncpgDriver(connection))
    queries = Queries(AsyncpgPoolDriver(pool))

    async def single(job: Job) -> None:
        json.loads(job.payload)

    async def part(job: Job) -> None:
        task = json.loads(job.payload)["task"]
        if await pool.fetchval(COUNT_DOWN, task) == 0:
            await queries.enqueue("callback", str(task).encode())

    async def callback(job: Job) -> None:
        say_called(job.payload.decode())

    for name, handler in (("single", single), ("part", part), ("callback", callback)):
        manager.entrypoint(name)(handler)
    say_ready("pgqueuer", "asyncpg")
    await manager.run(batch_size=DEQUEUE)


async def produce(url: str) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))

    async def enqueue(payloads: list[Payload], name: str = "single") -> None:
        size = len(payloads)
        encoded: list[bytes | None] = [json.dumps(one).encode() for one in payloads]
        await queries.enqueue([name] * size, encoded, [0] * size)

    async def is_empty() -> bool:
        return bool(await connection.fetchval(IS_EMPTY))

    async def fan_out(task: int, payloads: list[Payload]) -> None:
        async with connection.transaction():
            await connection.execute("INSERT INTO fan_in VALUES ($1, $2)", task, len(payloads))
            await enqueue(payloads, "part")

    await serve_producer(enqueue, is_empty, fan_out)


if __name__ == "__main__":
    uvloop.run(chosen_role({"install": install, "worker": work, "produce": produce})(sys.argv[2]))
