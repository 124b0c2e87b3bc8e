"""Celery with Redis as broker and result store: messages without results in (a), a chord for fan-in.

python -m bench.peers.drivers.celery_driver worker|produce URL
"""

from __future__ import annotations

import sys
import time
from functools import partial

from celery import Celery, chord

from bench.peers.drivers.lines import Command, Tally, chosen_role, payload, say, say_called, say_ready, serve

PREFETCH = 128  # its guide to optimizing: much, when tasks are short and many
POOL = "solo"  # a process each; prefork hands every message on through a pipe, and was slower
RESULTS = 1  # Redis database; the broker's is 0
TALLIES: list[Tally] = []  # the worker's


def single(number: int, text: str) -> None:
    TALLIES[0].add(1)


def part(task: int, number: int, text: str) -> int:
    return number


def callback(numbers: list[int], task: int) -> int:
    say_called(task)
    return len(numbers)


class Tasks:
    """The application that worker and producer share."""

    def __init__(self, url: str) -> None:
        self.app = Celery("peer", broker=f"{url}/0", backend=f"{url}/{RESULTS}")
        self.app.conf.update(
            worker_prefetch_multiplier=PREFETCH,
            result_expires=3600,
            broker_connection_retry_on_startup=True,
            worker_hijack_root_logger=False,
            worker_redirect_stdouts=False,
        )
        self.single = self.app.task(name="single", ignore_result=True)(single)
        self.part = self.app.task(name="part")(part)
        self.callback = self.app.task(name="callback")(callback)


def work(url: str) -> None:
    tasks = Tasks(url)
    TALLIES.append(Tally())
    say_ready("celery", "redis")
    name = f"worker-{time.time_ns()}@localhost"
    options = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR"]
    tasks.app.worker_main(["worker", f"--pool={POOL}", f"--hostname={name}", *options])


def produce(url: str) -> None:
    tasks = Tasks(url)
    serve({"throughput": partial(throughput, tasks), "fan_in": partial(fan_in, tasks)})


def throughput(tasks: Tasks, command: Command) -> None:
    count = command["count"]
    began = time.time()
    with tasks.app.producer_pool.acquire() as producer:
        for number in range(count):
            tasks.single.apply_async(kwargs=payload(number), producer=producer)
    say(began=began)


def fan_in(tasks: Tasks, command: Command) -> None:
    task = command["task"]
    began = time.time()
    parts = [tasks.part.s(task=task, **payload(number)) for number in range(command["sub_tasks"])]
    chord(parts)(tasks.callback.s(task=task))
    say(began=began, task=str(task))


if __name__ == "__main__":
    chosen_role({"worker": work, "produce": produce})(sys.argv[2])
