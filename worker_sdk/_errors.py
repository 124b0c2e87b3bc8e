"""Every exception that the SDK defines.

RVQError
├── ConfigurationError      the environment or the Handler class is wrong; lists every problem
├── APIError                a request to RVQ did not succeed
│   ├── Unavailable         no usable response: the same request may be sent again later
│   ├── Denied              the token is refused, or the worker API is switched off
│   └── Rejected            the body of this request is refused (400, 413, 422)
└── Ending                  raised by `Handler.handle` to end a sub_task
    ├── Retry               try again, after a while
    ├── Fail                failed for good
    │   ├── PayloadError    the payload cannot be decoded
    │   └── ResultError     the result is not JSON
    └── Cancelled           stopped on request: RVQ cancelled it, the lease is lost, or the worker stops
"""

from collections.abc import Sequence
from datetime import timedelta

MAX_RETRY_AFTER = 7 * 24 * 3600


class RVQError(Exception):
    """The base of all exceptions of the SDK."""


class ConfigurationError(RVQError):
    """The worker cannot start with these settings."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class APIError(RVQError):
    """A request to RVQ did not succeed. `status` is None when there was no response at all."""

    def __init__(self, detail: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.retry_after = retry_after


class Unavailable(APIError):
    """No usable response came (no connection, 5xx, 429, a cut body, a redirect). Send the request again."""


class Denied(APIError):
    """The token is not accepted (401, 403), or there is no worker API at this address (404)."""


class Rejected(APIError):
    """Something in the body is refused (400, 413, 422). Sending the same body again is pointless."""


class Ending(RVQError):
    """The base of what a handler raises to say how its sub_task ends."""


class Retry(Ending):
    """The sub_task should run again, `after` so many seconds (RVQ's own back-off when None)."""

    def __init__(self, message: str = "retry requested", *, after: float | timedelta | None = None) -> None:
        super().__init__(message)
        self.after = _seconds(after)


class Fail(Ending):
    """The sub_task has failed for good: no further attempt.

    `code` is a short name for programs; `details` any JSON value for people. Both reach the partner.
    """

    def __init__(self, message: str, *, code: str | None = None, details: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details


class PayloadError(Fail):
    """The payload cannot be decoded in Python; `payload_bytes` still has it."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="payload_undecodable")


class ResultError(Fail):
    """What `handle` returned is not a JSON value."""

    def __init__(self, message: str) -> None:
        super().__init__(message, code="result_not_json")


class Cancelled(Ending):
    """The sub_task was told to stop; nothing it returns would count any more."""


def _seconds(after: float | timedelta | None) -> float | None:
    """Return the seconds. Raises ValueError unless it is from 0 to RVQ's limit."""
    if after is None:
        return None
    seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
    if not 0 <= seconds <= MAX_RETRY_AFTER:
        raise ValueError(f"after must be from 0 seconds to {MAX_RETRY_AFTER} (7 days): {after!r}")
    return seconds
