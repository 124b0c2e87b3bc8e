"""How an attempt ended, ready to be reported: made from what a handler returned or raised."""

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ._errors import Cancelled, Fail, ResultError, Retry
from ._json import check, encode
from ._sub_task import Raw, SubTask

if TYPE_CHECKING:
    from ._handler import Handler

MAX_MESSAGE = 2_000  # characters
MAX_TRACEBACK = 8_000  # characters, its end: that is where the cause stands
MAX_RESULT_BYTES = 1024 * 1024  # RVQ's own limit, told here in plain words
MAX_DETAILS_BYTES = 256 * 1024


@dataclass(frozen=True)
class Outcome:
    """`succeeded` with `document` as the result, or `failed` with `document` as the error (JSON bytes)."""

    succeeded: bool
    document: bytes

    def report(self, sub_task_id: str, lease_token: str) -> bytes:
        """The item of a complete request."""
        status, key = (b"succeeded", b"result") if self.succeeded else (b"failed", b"error")
        head = encode({"id": sub_task_id, "lease_token": lease_token})[:-1]
        return b'%b,"status":"%b","%b":%b}' % (head, status, key, self.document)


def perform(handler: "Handler", sub_task: SubTask) -> Outcome | None:
    """Run the handler once. Never raises; None when it stopped because it was told to."""
    try:
        return _success(handler.handle(sub_task))
    except Cancelled as error:
        # One that nobody asked for is a bug of the handler like any other exception.
        return None if sub_task.cancelled.is_set() else failure_of(error)
    except BaseException as error:  # sys.exit() in a handler must not end the worker
        return failure_of(error)


def failure(
    message: str,
    kind: str,
    *,
    retryable: bool,
    after: float | None = None,
    code: str | None = None,
    trace: str | None = None,
    details: bytes | None = None,
) -> Outcome:
    """A failure report; texts are bounded and made storable, `details` is JSON already."""
    error: dict[str, object] = {
        "message": _storable(message)[:MAX_MESSAGE],
        "type": kind,
        "retryable": retryable,
    }
    if code is not None:
        error["code"] = _storable(code)[:MAX_MESSAGE]
    if after is not None:
        error["retry_after_seconds"] = after
    if trace is not None:
        error["traceback"] = _storable(trace)[-MAX_TRACEBACK:]
    document = encode(error)
    if details is not None:
        document = b'%b,"details":%b}' % (document[:-1], details)
    return Outcome(False, document)


def failure_of(error: BaseException) -> Outcome:
    """What an exception of the handler means: Retry and Fail say so, any other may be tried again."""
    kind = type(error).__name__
    if isinstance(error, Retry):
        return failure(_text(error), kind, retryable=True, after=error.after)
    if isinstance(error, Fail):
        return failure(_text(error), kind, retryable=False, code=error.code, details=_details(error))
    return failure(_text(error), kind, retryable=True, trace=_trace(error))


def _success(value: object) -> Outcome:
    """Raises ResultError with the reason in words."""
    try:
        document = _document(value)
    except Exception as error:  # a value's own methods may raise anything
        raise ResultError(f"the result is not JSON: {_text(error)}") from error
    if len(document) > MAX_RESULT_BYTES:
        raise ResultError(f"the result is too large: {len(document)} bytes, at most {MAX_RESULT_BYTES}")
    return Outcome(True, document)


def _document(value: object) -> bytes:
    """The result's bytes: Raw and bytes as they are (checked: a cut one would spoil its whole batch)."""
    if isinstance(value, Raw):
        value = value.json.encode() if isinstance(value.json, str) else value.json
    if not isinstance(value, bytes):
        return encode(value)
    check(value)
    return value


def _details(error: Fail) -> bytes | None:
    if error.details is None:
        return None
    try:
        details = encode(error.details)
        if len(details) > MAX_DETAILS_BYTES:
            raise ValueError(f"{len(details)} bytes, at most {MAX_DETAILS_BYTES}")
        return details
    except Exception as cause:  # the failure itself matters more than its details
        return encode(f"the details cannot be reported: {_storable(_text(cause))}")


def _text(error: BaseException) -> str:
    try:
        return str(error) or type(error).__name__
    except Exception:  # a broken __str__ must not hide the failure
        return f"{type(error).__name__} (its message cannot be shown)"


def _trace(error: BaseException) -> str:
    """The traceback without the SDK's own first frame."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames))


def _storable(text: str) -> str:
    """Without what PostgreSQL's text cannot hold: NUL and lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
