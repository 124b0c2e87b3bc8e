"""What the API adds to the SQL is the CPU of a claim over HTTP beside that of the same claim by pgbench.

    python -m bench.micro.overhead [--claims 4000] [--runs 5] [--connections 8]

Rounds alternate on one stack, and medians are shown. CPU is that of Gunicorn and of PostgreSQL, from /proc;
that of the senders is not counted. A route that does nothing, GET /healthz, is shown too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from bench.core.pgbench import Load, run_pgbench
from bench.gate import bodies
from bench.gate.http import Connection
from bench.gate.stack import GateStack, whole_stack
from bench.gate.target import read_target
from bench.procfs import cpu_seconds_of_trees
from bench.stats import alternate, written
from rvq.local.stack import DATABASE
from rvq.tables import markdown_table

CLAIM_LIMIT = 2
SUB_TASKS_AT_ONCE = 1_000
MOST = 2.5  # times the CPU of the same SQL alone
CLAIM_SQL = f"SELECT * FROM rvq.claim_sub_tasks('{{w}}', '{{{CLAIM_LIMIT}}}', 3600, '{{default}}');\n"
OVER_HTTP, BY_PGBENCH, NO_OP = "claim over HTTP", "claim by pgbench", "GET /healthz over HTTP"
Cpu = tuple[float, float]  # microseconds a call: API, PostgreSQL


def main(argv: list[str] | None = None) -> int:
    """Return 0 when a claim over HTTP costs at most 2.5 times the same function by pgbench."""
    options = _options(argv)
    with whole_stack() as stack:
        _fill(stack, 2 * options.claims * CLAIM_LIMIT * (options.runs + 1))
        ways = _ways(stack, options.claims, options.connections)
        for call in ways.values():
            call()  # fills caches
        measured = {name: partial(_cpu, stack, call, options.claims) for name, call in ways.items()}
        found = alternate(options.runs, measured)
    medians = {name: _median(runs) for name, runs in found.items()}
    rows = [_row(*item) for item in medians.items()]
    print(markdown_table(("", "API us", "PostgreSQL us", "both us"), rows))
    ratio = sum(medians[OVER_HTTP]) / sum(medians[BY_PGBENCH])
    print(f"claim over HTTP to claim by pgbench: {ratio:.2f}; at most {MOST}")
    return 0 if ratio <= MOST else 1


def _ways(stack: GateStack, calls: int, connections: int) -> dict[str, Callable[[], object]]:
    target = read_target(stack.environ)
    claim = bodies.claim_body("worker-1", CLAIM_LIMIT)

    def many(call: Callable[[Connection], tuple[int, bytes]]) -> None:
        connection = Connection(*target.api, target.worker_token, timeout=30)
        for _ in range(calls // connections):
            status, body = call(connection)
            assert status == 200, body
        connection.close()

    def over_http(call: Callable[[Connection], tuple[int, bytes]]) -> None:
        with ThreadPoolExecutor(connections) as pool:
            for done in [pool.submit(many, call) for _ in range(connections)]:
                done.result()

    load = Load(CLAIM_SQL, connections, transactions=calls // connections)
    return {
        OVER_HTTP: lambda: over_http(lambda connection: connection.post(b"/v1/sub_tasks/claim", claim)),
        BY_PGBENCH: partial(run_pgbench, stack.cluster, DATABASE, load),
        NO_OP: lambda: over_http(lambda connection: connection.get(b"/healthz")),
    }


def _fill(stack: GateStack, sub_tasks: int) -> None:
    """Queue enough for every claim of the run to get all that it asks for."""
    target = read_target(stack.environ)
    connection = Connection(*target.api, target.partner_token, timeout=60)
    creates = bodies.create_bodies(SUB_TASKS_AT_ONCE, (200, 2000), target.webhook_url)
    for _ in range(-(-sub_tasks // SUB_TASKS_AT_ONCE)):
        status, body = connection.post(b"/v1/tasks", next(creates))
        assert status == 201, body
    connection.close()


def _cpu(stack: GateStack, call: Callable[[], object], calls: int) -> Cpu:
    pids = stack.pids()
    before = cpu_seconds_of_trees(pids)
    call()
    after = cpu_seconds_of_trees(pids)
    api, postgres = ((after[name] - before[name]) / calls * 1e6 for name in ("API", "PostgreSQL"))
    return api, postgres


def _median(runs: list[Cpu]) -> Cpu:
    return statistics.median(api for api, _ in runs), statistics.median(postgres for _, postgres in runs)


def _row(name: str, cpu: Cpu) -> tuple[str, ...]:
    return (name, *(written(value) for value in (*cpu, sum(cpu))))


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.micro.overhead", description=__doc__)
    parser.add_argument("--claims", type=int, default=4000, help="calls in each round")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--connections", type=int, default=8)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
