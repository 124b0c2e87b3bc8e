"""The four worker calls, over any transport: requests built, answers checked, statuses sorted into errors."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn, Protocol

from ._errors import APIError, Denied, Rejected, Unavailable
from ._json import array_of, as_written, decode, decoded, encode, object_of
from ._sub_task import Claimed
from ._transport import Answer, Transport

MAX_BATCH = 1000  # of each call, by the contract
MAX_RETRY_AFTER = 60.0  # seconds; a longer wish is not believed

_KNOWN = ("id", "task_id", "index", "queue", "attempt", "max_attempts", "lease_token")
CLAIM = object_of(sub_tasks=array_of(object_of(**dict.fromkeys(_KNOWN, decoded), payload=as_written)))


class Leased(Protocol):
    """What names a lease."""

    @property
    def id(self) -> str: ...

    @property
    def token(self) -> str: ...


class Client:
    """Methods raise Unavailable, Denied or Rejected. Safe to share between threads."""

    def __init__(self, transport: Transport, worker_id: str) -> None:
        self._transport = transport
        self._worker_id = worker_id

    def claim(self, limit: int, lease_seconds: int, queues: Sequence[str]) -> list[Claimed]:
        fields = {"limit": limit, "lease_seconds": lease_seconds, "queues": list(queues)}
        body = self._post("claim", self._body(fields))
        try:
            return [_claimed(members) for members in decode(body, CLAIM)["sub_tasks"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Unavailable(f"the claim's answer makes no sense: {error!r}") from error

    def complete(self, reports: Sequence[bytes]) -> list[str]:
        """One outcome for each report, in order. The same reports give the same bytes: safe to repeat."""
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
        answer = self._transport.post(f"/v1/sub_tasks/{verb}", body)
        if answer.status != 200:
            _raise(verb, answer)
        return answer.body


def _names(leases: Sequence[Leased]) -> list[dict[str, str]]:
    return [{"id": lease.id, "lease_token": lease.token} for lease in leases]


def _claimed(members: dict[str, Any]) -> Claimed:
    return Claimed(payload_bytes=members.pop("payload"), **members)


def _outcomes(body: bytes, expected: int) -> list[str]:
    """Raises Unavailable unless there is one word for each item asked about."""
    try:
        outcomes = [item["outcome"] for item in json.loads(body)["results"]]
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable(f"the answer makes no sense: {error!r}") from error
    if len(outcomes) != expected or not all(isinstance(outcome, str) for outcome in outcomes):
        raise Unavailable(f"the answer has {len(outcomes)} outcomes for {expected} items")
    return outcomes


def _raise(verb: str, answer: Answer) -> NoReturn:
    detail = f"{verb} answered {answer.status}: {_problem(answer.body)}"
    kind: type[APIError] = Unavailable
    if answer.status in (401, 403, 404):
        kind = Denied
    elif answer.status in (400, 413, 422):
        kind = Rejected
    raise kind(detail, status=answer.status, retry_after=retry_after_seconds(answer.retry_after))


def _problem(body: bytes) -> str:
    """The gist of a problem+json body, or of whatever a proxy sent instead."""
    try:
        problem = json.loads(body)
        errors = "".join(
            f"; {error['pointer']}: {error['detail']}" for error in problem.get("errors", [])[:3]
        )
        return f"{problem.get('code')}: {problem.get('detail') or problem.get('title')}{errors}"[:500]
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return body[:200].decode("utf-8", "replace")


def retry_after_seconds(header: str | None) -> float | None:
    """A Retry-After header as seconds from now, within 0 and MAX_RETRY_AFTER; None when it is no use."""
    if header is None:
        return None
    if header.strip().isascii() and header.strip().isdigit():
        return min(float(header), MAX_RETRY_AFTER)
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - datetime.now(UTC)).total_seconds(), 0.0), MAX_RETRY_AFTER)
