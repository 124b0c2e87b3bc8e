"""The four worker calls over any transport: requests are built, responses checked, statuses become errors."""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn, Protocol

from ._errors import APIError, Denied, Rejected, Unavailable
from ._json import array_of, as_written, decode, encode, object_of
from ._sub_task import Claimed
from ._transport import Answer, Transport

MAX_BATCH = 1000  # sub_tasks in one call, by the API's contract
MAX_RETRY_AFTER = 60.0  # seconds; a longer Retry-After is cut to this

_CLAIMED = object_of(
    "id", "task_id", "index", "queue", "attempt", "max_attempts", "lease_token", payload=as_written
)
_CLAIM = object_of(sub_tasks=array_of(_CLAIMED))


class Leased(Protocol):
    """A lease as requests name it."""

    @property
    def id(self) -> str: ...

    @property
    def token(self) -> str: ...


class Client:
    """RVQ's worker API. Methods raise Unavailable, Denied or Rejected. Threads may share a client."""

    def __init__(self, transport: Transport, worker_id: str) -> None:
        self._transport = transport
        self._worker_id = worker_id
        self._pid: int | None = None  # of the process that made the first call

    def claim(self, limit: int, lease_seconds: int, queues: Sequence[str]) -> list[Claimed]:
        fields = {"limit": limit, "lease_seconds": lease_seconds, "queues": list(queues)}
        body = self._post("claim", self._body(fields))
        try:
            return [_claimed(members) for members in decode(body, _CLAIM)["sub_tasks"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"the claim's answer makes no sense: {error!r}") from error

    def complete(self, reports: Sequence[bytes]) -> list[str]:
        """Return RVQ's outcome for each report, in order.

        The same reports give the same bytes, so that sending them again is safe.
        """
        body = b'%b,"results":[%b]}' % (self._body({})[:-1], b",".join(reports))
        return _outcomes(self._post("complete", body), len(reports))

    def heartbeat(self, leases: Sequence[Leased], lease_seconds: int) -> list[str]:
        fields = {"lease_seconds": lease_seconds, "leases": _names(leases)}
        return _outcomes(self._post("heartbeat", self._body(fields)), len(leases))

    def release(self, leases: Sequence[Leased]) -> list[str]:
        return _outcomes(self._post("release", self._body({"leases": _names(leases)})), len(leases))

    def _body(self, fields: dict[str, object]) -> bytes:
        return encode({"worker_id": self._worker_id, **fields})

    def _post(self, verb: str, body: bytes) -> bytes:
        if self._pid is None:
            self._pid = os.getpid()
        elif self._pid != os.getpid():
            raise Unavailable(f"a fork of the worker must not {verb} in its name")
        response = self._transport.post(f"/v1/sub_tasks/{verb}", body)
        if response.status != 200:
            _raise(verb, response)
        return response.body


def _claimed(members: dict[str, Any]) -> Claimed:
    """Return a sub_task of a response. Raises KeyError or TypeError unless its members are right."""
    one = Claimed(payload_bytes=members.pop("payload"), **members)
    texts = (one.id, one.task_id, one.queue, one.lease_token)
    numbers = (one.index, one.attempt, one.max_attempts)
    if not all(type(text) is str for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError(f"members of other types: {members}")
    return one


def _names(leases: Sequence[Leased]) -> list[dict[str, str]]:
    return [{"id": lease.id, "lease_token": lease.token} for lease in leases]


def _outcomes(body: bytes, expected: int) -> list[str]:
    """Return the outcomes of a response. Raises Unavailable unless there are as many as expected."""
    try:
        outcomes = [result["outcome"] for result in json.loads(body)["results"]]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise Unavailable(f"the answer makes no sense: {error!r}") from error
    if len(outcomes) != expected or not all(isinstance(outcome, str) for outcome in outcomes):
        raise Unavailable(f"the answer has {len(outcomes)} outcomes for {expected} items")
    return outcomes


def _raise(verb: str, response: Answer) -> NoReturn:
    detail = f"{verb} answered {response.status}: {_problem(response.body)}"
    kind: type[APIError] = Unavailable
    if response.status in (401, 403, 404):
        kind = Denied
    elif response.status in (400, 413, 422):
        kind = Rejected
    raise kind(
        detail, status=response.status, retry_after=retry_after_seconds(response.retry_after, response.date)
    )


def _problem(body: bytes) -> str:
    """Return the main words of a problem+json body, or the start of whatever a proxy sent instead."""
    try:
        problem = json.loads(body)
        errors = "".join(
            f"; {error['pointer']}: {error['detail']}" for error in problem.get("errors", [])[:3]
        )
        return f"{problem.get('code')}: {problem.get('detail') or problem.get('title')}{errors}"[:500]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")


def retry_after_seconds(header: str | None, date: str | None = None) -> float | None:
    """Return a Retry-After header as seconds from now, from 0 to MAX_RETRY_AFTER; None if it is unusable.

    A date is of the server's clock, so it is compared with `date`, the response's own Date header, and only
    without one with our clock.
    """
    if header is None:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return min(float(header), MAX_RETRY_AFTER)
    until, since = _moment(header), _moment(date or "") or datetime.now(UTC)
    return None if until is None else min(max((until - since).total_seconds(), 0.0), MAX_RETRY_AFTER)


def _moment(header: str) -> datetime | None:
    """Return an HTTP date, in UTC where it has no zone; None for anything else."""
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
