"""RVQ: everything over HTTP, kept connections, many sub_tasks a request.

    python -m bench.peers.drivers.rvq_driver worker|produce|receive

Where RVQ is comes from the environment, as for the gate (bench/gate/target.py). Callbacks are its signed
webhooks: `receive` verifies them and says which task one was for.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec

from bench.gate.bodies import claim_body, complete_body
from bench.gate.http import Connection
from bench.gate.target import Target, read_target
from bench.gate.users import CLAIM, COMPLETED, CREATED, Claimed
from bench.peers.drivers.lines import (
    BATCH,
    Command,
    chosen_role,
    payload,
    say,
    say_called,
    say_ready,
    serve,
    slices,
)
from bench.receiver import Event, Ledger, decoded, listen

CLAIM_LIMIT = 1000
CREATORS = 2  # connections
CLAIMERS = 2  # connections of each worker process
CALLERS = 8  # connections that make single calls
PAUSE_SECONDS = 0.005  # after a claim that got nothing
TIMEOUT = 60.0
ALONE = "alone"  # the queue of single calls, where no worker of ours takes from


class Refused(Exception):
    """The response is not the one that is needed."""


def post(connection: Connection, path: bytes, body: bytes, status: int) -> bytes:
    """Return the body of a response with this status. Raises Refused."""
    found, response = connection.post(path, body)
    if found != status:
        raise Refused(f"{path.decode()} responded with {found}: {response[:300]!r}")
    return response


def create_body(numbers: range, **more: object) -> bytes:
    sub_tasks = [{"payload": payload(number)} for number in numbers]
    return msgspec.json.encode({"sub_tasks": sub_tasks, **more})


def work(target: Target) -> None:
    loops = [Loop(target, f"worker-{os.getpid()}-{number}") for number in range(CLAIMERS)]
    threads = [threading.Thread(target=loop.run, daemon=True) for loop in loops]
    for thread in threads:
        thread.start()
    say_ready("rvq", "gunicorn", "flask")
    for thread in threads:
        thread.join()


class Loop:
    """One connection of a worker: claims, works, reports; without end."""

    def __init__(self, target: Target, name: str) -> None:
        self._name = name
        self._connection = Connection(*target.api, target.worker_token, TIMEOUT)
        self._claim = claim_body(name, CLAIM_LIMIT)

    def run(self) -> None:
        while True:
            response = post(self._connection, b"/v1/sub_tasks/claim", self._claim, 200)
            claimed = CLAIM.decode(response).sub_tasks
            if claimed:
                self._complete(claimed)
            else:
                time.sleep(PAUSE_SECONDS)

    def _complete(self, claimed: Sequence[Claimed]) -> None:
        leases = [(one.id, one.lease_token) for one in claimed]
        body = complete_body(self._name, leases, results())
        completed = COMPLETED.decode(post(self._connection, b"/v1/sub_tasks/complete", body, 200))
        done = sum(result.outcome == "succeeded" for result in completed.results)
        say(done=done, at=time.time())


def results() -> Iterator[bytes]:
    while True:
        yield b'{"ok":true}'


class Producer:
    """Partner and, for single calls, worker too."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pool = ThreadPoolExecutor(CALLERS)
        self._partners = [Connection(*target.api, target.partner_token, TIMEOUT) for _ in range(CALLERS)]
        self._workers = [Connection(*target.api, target.worker_token, TIMEOUT) for _ in range(CALLERS)]

    def throughput(self, command: Command) -> None:
        """Create tasks without a webhook, which the peers' throughput has not either."""
        batches = slices(command["count"], BATCH)

        def create(mine: Sequence[range], connection: Connection) -> None:
            for numbers in mine:
                post(connection, b"/v1/tasks", create_body(numbers), 201)

        began = time.time()
        self._all([partial(create, batches[n::CREATORS], self._partners[n]) for n in range(CREATORS)])
        say(began=began)

    def fan_in(self, command: Command) -> None:
        began = time.time()
        body = create_body(range(command["sub_tasks"]), webhook_url=self._target.webhook_url)
        response = post(self._partners[0], b"/v1/tasks", body, 201)
        say(began=began, task=CREATED.decode(response).id)

    def single_calls(self, command: Command) -> None:
        """Make tasks of one sub_task, claims of one, completes of one."""
        each = -(-command["count"] // CALLERS)
        body = create_body(range(1), queue=ALONE)
        claimed: list[list[Claimed]] = [[] for _ in range(CALLERS)]

        def create(number: int) -> None:
            for _ in range(each):
                post(self._partners[number], b"/v1/tasks", body, 201)

        def claim(number: int) -> None:
            asked = msgspec.json.encode({"worker_id": f"single-{number}", "queues": [ALONE]})
            for _ in range(each):
                response = post(self._workers[number], b"/v1/sub_tasks/claim", asked, 200)
                claimed[number] += CLAIM.decode(response).sub_tasks

        def complete(number: int) -> None:
            for one in claimed[number]:
                report = complete_body(f"single-{number}", [(one.id, one.lease_token)], results())
                post(self._workers[number], b"/v1/sub_tasks/complete", report, 200)

        rates = {}
        for name, call in (("create", create), ("claim", claim), ("complete", complete)):
            began = time.time()
            self._all([partial(call, number) for number in range(CALLERS)])
            rates[name] = each * CALLERS / (time.time() - began)
        if sum(map(len, claimed)) != each * CALLERS:
            raise Refused("not every claim of one got one")
        say(rates=rates)

    def _all(self, calls: Sequence[Callable[[], None]]) -> None:
        for done in [self._pool.submit(call) for call in calls]:
            done.result()


def produce(target: Target) -> None:
    producer = Producer(target)
    serve(
        {
            "throughput": producer.throughput,
            "fan_in": producer.fan_in,
            "single_calls": producer.single_calls,
        }
    )


class TellingLedger(Ledger):
    """Says which task a valid webhook was for; a wrong one ends the run."""

    def take(self, headers: dict[bytes, bytes], body: bytes) -> str | None:
        reason = super().take(headers, body)
        if reason is not None:
            print(f"a webhook was refused: {reason}", file=sys.stderr)
            os._exit(1)
        say_called(msgspec.json.decode(body, type=Event).data.task_id)
        return reason


def receive(target: Target) -> None:
    ledger = TellingLedger(decoded(os.environ["GATE_WEBHOOK_SECRET"]))
    port = int(target.receiver_url.rpartition(":")[2].partition("/")[0])

    asyncio.run(listen(port, ledger, say_ready))


if __name__ == "__main__":
    chosen_role({"worker": work, "produce": produce, "receive": receive})(read_target(os.environ))
