"""Clients that ask again as soon as they are answered: whole tasks a second, and how long a create takes.

    python -m bench.micro.clients [--clients 1 2 4 8 16 32] [--seconds 4] [--runs 3]

Each client makes a task of one sub_task, claims one and completes it, one call after the other, over its own
connection. Rounds alternate on one stack, and medians are shown; beside them what the same create takes as a
bare SQL call. Exits 1 if more clients do clearly less than fewer.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from typing import NamedTuple

from app.db import Pool
from app.db.coalescing import Coalescer
from app.partner.store import NewTask, Store
from bench.gate import bodies
from bench.gate.http import Connection
from bench.gate.stack import GateStack, whole_stack
from bench.gate.target import Target, read_target
from bench.gate.users import CLAIM
from bench.stats import alternate, percentile, written
from rvq.local.stack import DATABASE
from rvq.tables import markdown_table

SIZES = (200, 2000)
# Fewer tasks than this share of what fewer clients did is no noise.
CLEARLY = 0.95


class Round(NamedTuple):
    """`seconds` are those of each create."""

    tasks_a_second: float
    seconds: list[float]


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    with whole_stack() as stack:
        target = read_target(stack.environ)
        rounds = {str(n): partial(_round, target, n, options.seconds) for n in options.clients}
        _round(target, max(options.clients), options.seconds)  # fills caches
        found = alternate(options.runs, rounds)
        bare = _bare_create(stack)
    rows = [_row(name, runs) for name, runs in found.items()]
    print(markdown_table(("clients", "tasks a second", "create p50 ms", "create p99 ms"), rows))
    print(f"the same create as a bare SQL call, p50: {written(bare * 1e3)} ms")
    rates = [statistics.median(one.tasks_a_second for one in runs) for runs in found.values()]
    return int(any(rate < CLEARLY * max(rates[: i + 1]) for i, rate in enumerate(rates)))


def _round(target: Target, clients: int, seconds: float) -> Round:
    with ThreadPoolExecutor(clients) as pool:
        until = time.monotonic() + seconds
        found = list(pool.map(partial(_client, target, until), range(clients)))
    return Round(sum(map(len, found)) / seconds, sorted(one for part in found for one in part))


def _client(target: Target, until: float, number: int) -> list[float]:
    """Do whole tasks until the time is up; return how long each create took."""
    partner, worker = (
        Connection(*target.api, token, timeout=30) for token in (target.partner_token, target.worker_token)
    )
    creates = bodies.create_bodies(1, SIZES, target.webhook_url)
    results = cycle(bodies.documents(SIZES, seed=2))
    name = f"client-{number}"
    claim, took = bodies.claim_body(name, 1), []
    while time.monotonic() < until:
        began = time.monotonic()
        _expect(201, partner.post(b"/v1/tasks", next(creates)))
        took.append(time.monotonic() - began)
        body = _expect(200, worker.post(b"/v1/sub_tasks/claim", claim))
        leases = [(one.id, one.lease_token) for one in CLAIM.decode(body).sub_tasks]
        if leases:
            complete = bodies.complete_body(name, leases, results)
            _expect(200, worker.post(b"/v1/sub_tasks/complete", complete))
    partner.close()
    worker.close()
    return took


def _bare_create(stack: GateStack, calls: int = 1000) -> float:
    """Return the median of the seconds that the create takes in SQL alone."""
    pool = Pool(stack.cluster.url(DATABASE), 1, "rvq-bench")
    pool.open()
    store, took = Store(pool, Coalescer(1)), []
    payloads = cycle(bodies.documents(SIZES, seed=1))
    for _ in range(calls):
        new = NewTask(
            "bare", next(payloads).decode(), [5], None, None, None, None, "all", None, None, None, None
        )
        began = time.monotonic()
        store.create_task(new).result()
        took.append(time.monotonic() - began)
    pool.close()
    return statistics.median(took)


def _row(clients: str, runs: list[Round]) -> tuple[str, ...]:
    rate = statistics.median(one.tasks_a_second for one in runs)
    p50, p99 = (
        statistics.median(percentile(one.seconds, share) for one in runs) * 1e3 for share in (0.5, 0.99)
    )
    return clients, written(rate), written(p50), written(p99)


def _expect(status: int, response: tuple[int, bytes]) -> bytes:
    assert response[0] == status, response
    return response[1]


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.clients", description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round")
    parser.add_argument("--runs", type=int, default=3)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
