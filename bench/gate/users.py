"""A user of a stream is a greenlet with a connection of its own, which sends a request at each tick."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from bench.gate import bodies
from bench.gate.http import Connection, HttpError
from bench.gate.profile import Load
from bench.gate.stream import Stream
from bench.gate.target import Target

Sleep = Callable[[float], object]


class Created(msgspec.Struct):
    id: str


class Claimed(msgspec.Struct):
    id: str
    lease_token: str


class Claim(msgspec.Struct):
    sub_tasks: list[Claimed]


class Reported(msgspec.Struct):
    outcome: str


class Completed(msgspec.Struct):
    results: list[Reported]


CREATED = msgspec.json.Decoder(Created)
CLAIM = msgspec.json.Decoder(Claim)
COMPLETED = msgspec.json.Decoder(Completed)
Lease = tuple[str, str]


@dataclass
class Work:
    """What passes between the streams.

    `claimed`: what each claim got, if anything. `created`: by task id, when the tick was due that made it.
    """

    creates: Iterator[bytes]
    results: Iterator[bytes]
    created: dict[str, float] = field(default_factory=dict)
    claimed: deque[list[Lease]] = field(default_factory=deque)
    completed: int = 0


class Refused(Exception):
    """The response is not what a partner or worker needs; the text begins with the status."""


class StreamUser:
    """Takes ticks of a stream until it ends."""

    stream_name: str

    def __init__(
        self, stream: Stream, work: Work, target: Target, load: Load, name: str, sleep: Sleep
    ) -> None:
        token = target.partner_token if self.stream_name == "create" else target.worker_token
        self._stream = stream
        self._work = work
        self._name = name
        self._sleep = sleep
        self._connection = Connection(*target.api, token, load.timeout)
        self._claim_body = bodies.claim_body(name, load.claim_limit)

    def run(self) -> None:
        while (due := self._stream.take()) is not None:
            self.tick(due)
        self._connection.close()

    def tick(self, due: float) -> None:
        waited = sleep_until(due, self._sleep)
        if self._stream.sheds(due):
            return
        request = self.request()
        if request is None:
            self._stream.had_nothing_to_send(due)
            return
        sent = self._stream.begin(due, waited=waited)
        try:
            status, body = self._connection.post(*request)
            # The clock stops here: what the response means is the generator's own work.
            answered = time.perf_counter()
            self.accept(due, status, body)
        except (HttpError, Refused, msgspec.DecodeError) as error:
            self._stream.failed(due, str(error))
            self.keep()
        else:
            self._stream.succeeded(due, sent, answered)

    def request(self) -> tuple[bytes, bytes] | None:
        """Return path and body; None when there is nothing to send at this tick."""
        raise NotImplementedError

    def accept(self, due: float, status: int, body: bytes) -> None:
        """Take what the response holds. Raises Refused."""
        raise NotImplementedError

    def keep(self) -> None:
        """Keep what a failed request carried, to be sent again: the server did not lose it."""


class CreateUser(StreamUser):
    stream_name = "create"

    def request(self) -> tuple[bytes, bytes]:
        return b"/v1/tasks", next(self._work.creates)

    def accept(self, due: float, status: int, body: bytes) -> None:
        _expect(201, status, body)
        self._work.created[CREATED.decode(body).id] = due


class ClaimUser(StreamUser):
    stream_name = "claim"

    def request(self) -> tuple[bytes, bytes]:
        return b"/v1/sub_tasks/claim", self._claim_body

    def accept(self, _due: float, status: int, body: bytes) -> None:
        _expect(200, status, body)
        claimed = [(sub_task.id, sub_task.lease_token) for sub_task in CLAIM.decode(body).sub_tasks]
        if claimed:
            self._work.claimed.append(claimed)


class CompleteUser(StreamUser):
    stream_name = "complete"

    def request(self) -> tuple[bytes, bytes] | None:
        """Return what one claim got: this stream is bounded by the claims that got something."""
        if not self._work.claimed:
            return None
        self._leases = self._work.claimed.popleft()
        return b"/v1/sub_tasks/complete", bodies.complete_body(self._name, self._leases, self._work.results)

    def keep(self) -> None:
        if self._leases:
            self._work.claimed.append(self._leases)

    def accept(self, _due: float, status: int, body: bytes) -> None:
        _expect(200, status, body)
        self._leases = []
        outcomes = [result.outcome for result in COMPLETED.decode(body).results]
        wrong = sorted({outcome for outcome in outcomes if outcome != "succeeded"})
        if wrong:
            raise Refused(f"{status} with outcome {', '.join(wrong)}")
        self._work.completed += len(outcomes)


KINDS: dict[str, type[StreamUser]] = {
    kind.stream_name: kind for kind in (CreateUser, ClaimUser, CompleteUser)
}


def sleep_until(moment: float, sleep: Sleep) -> bool:
    """Sleep until time.perf_counter() is there; return whether there was anything to wait for.

    gevent's timers start from the loop's own idea of now, which is old when the loop is busy: they end early.
    """
    waited = False
    while (rest := moment - time.perf_counter()) > 0:
        waited = True
        sleep(rest)
    return waited


def _expect(wanted: int, status: int, body: bytes) -> None:
    if status != wanted:
        raise Refused(f"{status} {body[:160].decode(errors='replace')}")
