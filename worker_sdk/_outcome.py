"""How an attempt ended, made from what a handler returned or raised, and ready to be reported."""

import contextlib
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._errors import Cancelled, Fail, ResultError, Retry
from ._json import check, encode
from ._process.fork import OneProcess
from ._process.state import keep_recursion_limit
from ._sub_task import Raw, SubTask

MAX_MESSAGE = 2_000  # characters
MAX_NAME = 200  # characters of the name of an exception's class
PLAIN = (dict, list, str, int, type(None), bool, float, tuple, Raw, bytes)
MAX_DEPTH = 5_000  # of a result; encoding a deeper one could overflow the C stack of a whole process
MAX_TRACEBACK = 8_000  # characters, of its end: that is where the cause stands
MAX_RESULT_BYTES = 1024 * 1024  # RVQ's own limit, checked here too for a plain message
MAX_DETAILS_BYTES = 256 * 1024


@dataclass(frozen=True)
class Outcome:
    """How one attempt ended. `document` (JSON bytes) is the result when it succeeded, else the error."""

    succeeded: bool
    document: bytes

    def report(self, sub_task_id: str, lease_token: str) -> bytes:
        """Return the element of a complete request's `results`."""
        status, key = (b"succeeded", b"result") if self.succeeded else (b"failed", b"error")
        head = encode({"id": sub_task_id, "lease_token": lease_token})[:-1]
        return b'%b,"status":"%b","%b":%b}' % (head, status, key, self.document)


def perform(handle: Callable[[SubTask], Any], sub_task: SubTask) -> Outcome | None:
    """Run a handler's `handle` once. Return None when it stopped on request. Never raises.

    A fork of this process that comes out of `handle` ends here.
    """
    try:
        with OneProcess():
            return _success(handle(sub_task))
    except Cancelled as error:
        # One that nobody asked for is a bug of the handler like any other exception.
        return None if sub_task.cancelled.is_set() else failure_of(error)
    except BaseException as error:  # sys.exit() in a handler must not end the worker
        return failure_of(error)
    finally:
        keep_recursion_limit()


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
    """Return the outcome of a failure. Texts are shortened and made storable; `details` is JSON already."""
    error: dict[str, object] = {
        "message": _storable(message)[:MAX_MESSAGE],
        "type": _storable(kind)[:MAX_NAME],
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
    """Return what a handler's exception means. Never raises, whatever the exception does."""
    try:
        return _failure_of(error)
    except BaseException as cause:  # its methods and attributes may do and be anything
        kind = type(error).__name__
        message = f"{kind[:MAX_NAME]} (it cannot be reported: {type(cause).__name__[:MAX_NAME]})"
        return failure(message, kind, retryable=not isinstance(error, Fail))


def _failure_of(error: BaseException) -> Outcome:
    """Return what an exception means: Retry and Fail say so, any other may be tried again."""
    kind = type(error).__name__
    if isinstance(error, Retry):
        return failure(_text(error), kind, retryable=True, after=error.after)
    if isinstance(error, Fail):
        return failure(_text(error), kind, retryable=False, code=error.code, details=_details(error))
    return failure(_text(error), kind, retryable=True, trace=_trace(error))


def _success(value: object) -> Outcome:
    """Return the outcome of a handler that returned. Raises ResultError with the reason in plain words."""
    keep_recursion_limit()
    if (kind := _unfinished(value)) is not None:
        raise ResultError(f"the result is not JSON: handle returned {kind}, which has not run")
    if sys.getrecursionlimit() > MAX_DEPTH and _is_deeper(value, MAX_DEPTH):
        raise ResultError(f"the result is not JSON: it nests deeper than {MAX_DEPTH} levels")
    try:
        document = _document(value)
    except Exception as error:  # a value's own methods may raise anything
        raise ResultError(f"the result is not JSON: {_text(error)}") from error
    if len(document) > MAX_RESULT_BYTES:
        raise ResultError(f"the result is too large: {len(document)} bytes, at most {MAX_RESULT_BYTES}")
    return Outcome(True, document)


def _unfinished(value: object) -> str | None:
    """Return what a value is that still has to run, and end it; None for others."""
    if type(value) in PLAIN:
        return None
    for kind in ("coroutine", "generator", "asyncgen"):
        if getattr(inspect, f"is{kind}")(value):
            if kind != "asyncgen":
                with contextlib.suppress(BaseException):  # its `finally` is the handler's code
                    value.close()  # type: ignore[attr-defined]
            return f"an {kind}" if kind == "asyncgen" else f"a {kind}"
    return "an awaitable" if inspect.isawaitable(value) else None


def _is_deeper(value: object, most: int) -> bool:
    """Whether lists and dicts nest deeper than `most`; one that holds itself does."""
    level: list[Any] = [value]
    for _ in range(most):
        seen = {id(one): one for one in level if isinstance(one, dict | list | tuple)}
        level = [inner for one in seen.values() for inner in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return False
    return True


def _document(value: object) -> bytes:
    """Return the result as JSON. Raw and bytes stay as they are."""
    if not isinstance(value, Raw | bytes):
        return encode(value)
    document = bytes(value)
    check(document)  # bytes that are not JSON would spoil their whole batch
    return document


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
    except BaseException:  # a broken __str__ must not hide the failure
        return f"{type(error).__name__} (its message cannot be shown)"


def _trace(error: BaseException) -> str:
    """Return the traceback without the SDK's own first frame."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames))


def _storable(text: str) -> str:
    """Replace what PostgreSQL's text can't hold: NUL and lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
