"""Everything that can go wrong with a request, as RFC 9457 problems. A class's docstring is its title.

Problem
  MalformedRequest 400   TooLongTarget 414    TooManyHeaders 431 (these by the HTTP server)
  MalformedBody 400      Unauthorized 401     NotFound 404        ApiDisabled 404
  MethodNotAllowed 405   TooLarge 413         UnsupportedMedia 415
  IdempotencyConflict 409  StateConflict 409  HistoryChanged 409
  Invalid 422            TooManyRedeliveries 429
  OverBudget 503         Overloaded 503       DatabaseAway 503    TimedOut 503
  OutcomeIsUnknown 503   NotReady 503         ClockIsOff 503
  Unexpected 500 (a fault of ours; no input may lead to it)
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from app.db.errors import ClockOutOfRange, DatabaseError, DatabaseUnavailable, OutcomeUnknown, PoolExhausted
from app.ids import FIRST_DAY, LAST_DAY

MEDIA_TYPE = "application/problem+json"
# Somebody has to set the clock right.
CLOCK_RETRY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a body or a parameter; `pointer` is an RFC 6901 JSON pointer."""

    pointer: str
    detail: str


class Problem(Exception):
    """A request can't be served; subclasses give status and code."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal_error"

    def __init__(
        self, detail: str = "", *, errors: Sequence[Fault] = (), headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(detail)
        self.detail = detail or self.title()
        self.errors = errors
        self.headers = tuple(headers)

    @classmethod
    def title(cls) -> str:
        return (cls.__doc__ or "").split("\n")[0].rstrip(".")

    def body(self, request_id: str) -> bytes:
        document: dict[str, object] = {
            "type": f"/docs#problem-{self.code}",
            "title": self.title(),
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        }
        if self.errors:
            document["errors"] = self.errors
        return msgspec.json.encode(document)


class MalformedRequest(Problem):
    """The request is not HTTP as it should be."""

    status, code = 400, "malformed_request"


class MalformedBody(Problem):
    """The body is not JSON."""

    status, code = 400, "malformed_body"


class Unauthorized(Problem):
    """The token is missing or not valid here."""

    status, code = 401, "unauthorized"

    def __init__(self, detail: str = "") -> None:
        super().__init__(detail, headers=[("WWW-Authenticate", 'Bearer realm="rvq"')])


class NotFound(Problem):
    """There is nothing here."""

    status, code = 404, "not_found"


class ApiDisabled(Problem):
    """This API is switched off: its key is not configured."""

    status, code = 404, "api_disabled"


class MethodNotAllowed(Problem):
    """The method is not allowed here."""

    status, code = 405, "method_not_allowed"


class IdempotencyConflict(Problem):
    """The Idempotency-Key was used with another body."""

    status, code = 409, "idempotency_conflict"


class StateConflict(Problem):
    """The state does not allow it."""

    status, code = 409, "state_conflict"


class HistoryChanged(Problem):
    """The cursor is of a history that the database no longer has."""

    status, code = 409, "history_changed"


class TooLarge(Problem):
    """The body is too large."""

    status, code = 413, "body_too_large"


class UnsupportedMedia(Problem):
    """The body must be application/json."""

    status, code = 415, "unsupported_media_type"


class Invalid(Problem):
    """The request is well-formed, but not valid."""

    status, code = 422, "invalid"

    def __init__(self, *faults: Fault) -> None:
        detail = "; ".join(f"{fault.pointer or 'body'}: {fault.detail}" for fault in faults[:3])
        super().__init__(detail, errors=faults)


class TooManyRedeliveries(Problem):
    """The webhook was sent too often to be sent again."""

    status, code = 429, "too_many_redeliveries"


class TooLongTarget(Problem):
    """The address is too long."""

    status, code = 414, "uri_too_long"


class TooManyHeaders(Problem):
    """The request's headers are too large."""

    status, code = 431, "headers_too_large"


class Passing(Problem):
    """It will pass: try again later."""

    status, code = 503, "unavailable"

    def __init__(self, detail: str = "", retry_after: float = 1.0) -> None:
        super().__init__(detail, headers=[("Retry-After", str(max(1, math.ceil(retry_after))))])


class OverBudget(Passing):
    """All database connections are in use."""

    code = "over_budget"


class Overloaded(Passing):
    """RVQ takes no new tasks at the moment; claims and completes go on."""

    code = "overloaded"


class DatabaseAway(Passing):
    """The database can't be reached or takes no writes."""

    code = "database_unavailable"


class TimedOut(Passing):
    """The database took too long, and nothing was changed."""

    code = "timeout"


class OutcomeIsUnknown(Passing):
    """The call failed, and may have been carried out all the same."""

    code = "outcome_unknown"


class ClockIsOff(Passing):
    """The database's clock shows a day for which there are no ids."""

    code = "clock_out_of_range"


class NotReady(Passing):
    """RVQ is not ready to take requests."""

    code = "not_ready"


class Unexpected(Problem):
    """Something went wrong on our side."""


@contextlib.contextmanager
def already_done(what: str) -> Iterator[None]:
    """Say that the change was made, if reading what is shown of it fails."""
    try:
        yield
    except DatabaseError as error:
        raise OutcomeIsUnknown(f"{what}, but could not be read afterwards", error.retry_after) from error


def problem_of(error: DatabaseError) -> Problem:
    """Return the problem that a failed database call is to the caller of the API."""
    if isinstance(error, PoolExhausted):
        return OverBudget(retry_after=error.retry_after)
    if isinstance(error, ClockOutOfRange):
        detail = (
            f"no task can be created before it shows a day from {FIRST_DAY} to {LAST_DAY}; the rest goes on"
        )
        return ClockIsOff(detail, CLOCK_RETRY_SECONDS)
    if isinstance(error, DatabaseUnavailable):
        return DatabaseAway(retry_after=error.retry_after)
    if isinstance(error, OutcomeUnknown):
        return OutcomeIsUnknown(
            "look first, or ask again: the same Idempotency-Key or the same reports do nothing twice",
            retry_after=error.retry_after,
        )
    return TimedOut(retry_after=error.retry_after)


def all_problems(base: type[Problem] = Problem) -> list[type[Problem]]:
    """Return every class of problem that a caller can meet, by status and code."""
    kinds = [kind for kind in _subclasses(base) if kind is not Passing]
    return sorted(kinds, key=lambda kind: (kind.status, kind.code))


def _subclasses(base: type[Problem]) -> list[type[Problem]]:
    return [kind for child in base.__subclasses__() for kind in (child, *_subclasses(child))]
