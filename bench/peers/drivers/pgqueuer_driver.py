"""PgQueuer: batches of enqueue, batched dequeue and batched completion log, one asyncpg connection a manager.

    python -m bench.peers.drivers.pgqueuer_driver install|worker|produce URL

Fan-in is home-made, since it has none: a row counts down in each handler, the last one enqueues the callback.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import asyncpg
import uvloop
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, Job, PgQueuer, Queries

from bench.peers.drivers.lines import (
    CHECK_SECONDS,
    Command,
    end_with_input,
    payload,
    say,
    say_called,
    say_drained,
    say_ready,
    serve,
    slices,
)

ENQUEUE = 1000
DEQUEUE = 500
COUNTERS = "CREATE TABLE fan_in (task bigint PRIMARY KEY, left_over int NOT NULL) WITH (fillfactor = 50)"
COUNT_DOWN = "UPDATE fan_in SET left_over = left_over - 1 WHERE task = $1 RETURNING left_over"
IS_EMPTY = "SELECT NOT EXISTS (SELECT FROM pgqueuer)"


async def install(url: str) -> None:
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.optimize_autovacuum()
    await connection.execute(COUNTERS)
    await connection.close()
    say(ready=True, versions={})


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

    async def throughput(command: Command) -> None:
        began = time.time()
        for numbers in slices(command["count"], ENQUEUE):
            payloads = [json.dumps(payload(number)).encode() for number in numbers]
            await queries.enqueue(["single"] * len(payloads), payloads, [0] * len(payloads))
        while not await connection.fetchval(IS_EMPTY):
            await asyncio.sleep(CHECK_SECONDS)
        say_drained(began, command["count"])

    async def fan_in(command: Command) -> None:
        task, size = command["task"], command["sub_tasks"]
        began = time.time()
        payloads = [json.dumps({"task": task, **payload(number)}).encode() for number in range(size)]
        async with connection.transaction():
            await connection.execute("INSERT INTO fan_in VALUES ($1, $2)", task, size)
            await queries.enqueue(["part"] * size, payloads, [0] * size)
        say(began=began, task=str(task))

    say_ready()
    await serve({"throughput": throughput, "fan_in": fan_in})


if __name__ == "__main__":
    role, address = sys.argv[1:]
    if role == "worker":
        end_with_input()
    uvloop.run({"install": install, "worker": work, "produce": produce}[role](address))
