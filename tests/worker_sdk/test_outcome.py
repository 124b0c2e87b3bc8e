"""What a handler returns or raises becomes a report, whatever it is."""

import json
import sys
from datetime import timedelta
from typing import Any

import pytest

from worker_sdk import Cancelled, Fail, Handler, Raw, Retry, SubTask
from worker_sdk._outcome import MAX_MESSAGE, MAX_TRACEBACK, Outcome, perform
from worker_sdk.testing import run_handler


class Does(Handler):
    """A handler that returns or raises what the test put here."""

    result: Any = None
    error: BaseException | None = None

    def handle(self, sub_task: SubTask) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


def outcome_of(result: Any = None, error: BaseException | None = None) -> Outcome:
    handler = Does()
    handler.result, handler.error = result, error
    outcome = perform(handler.handle, sub_task())
    assert outcome is not None
    return outcome


def sub_task(payload: bytes = b"{}") -> SubTask:
    return SubTask("sub_1", "task_1", 0, "default", 1, 5, payload)


def error_of(result: Any = None, error: BaseException | None = None) -> dict[str, Any]:
    outcome = outcome_of(result, error)
    assert not outcome.succeeded
    found: dict[str, Any] = json.loads(outcome.document)
    return found


@pytest.mark.parametrize(
    ("result", "document"),
    [
        (None, b"null"),
        ({"a": (1, 2)}, b'{"a":[1,2]}'),
        (10**40, b"1" + b"0" * 40),
        ("é\0", '"é\\u0000"'.encode()),
        (Raw(b'{"price": 1.10}'), b'{"price": 1.10}'),
        (Raw("1e2"), b"1e2"),
        (b' {"a":1, "a":2}', b' {"a":1, "a":2}'),
    ],
)
def test_a_json_value_is_the_result_and_raw_json_stays_as_it_is(result: Any, document: bytes) -> None:
    assert outcome_of(result) == Outcome(True, document)


class Spiteful(dict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no")


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


def circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "result",
    [
        float("nan"),
        [float("inf")],
        {1, 2},
        object(),
        "\ud800",
        10**5000,
        deep(),
        circle(),
        Spiteful(a=1),
        Raw(b'{"cut": '),
        Raw(b"NaN"),
        b"\xff",
        Raw("\ud800"),
        Raw(b"1], ["),
        {("a", "b"): 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_json_fails_for_good_with_a_reason(result: Any) -> None:
    error = error_of(result)
    assert error["code"] == "result_not_json"
    assert error["retryable"] is False
    assert error["message"].startswith("the result is not JSON: ")


def test_a_result_over_the_limit_fails_for_good_and_names_the_size() -> None:
    error = error_of("x" * 1024 * 1024)
    assert error["message"].startswith("the result is too large: 1048578 bytes")
    assert error["retryable"] is False


def test_an_ordinary_exception_may_be_retried_and_tells_where_it_was_raised() -> None:
    error = error_of(error=ValueError("odd input"))
    assert (error["type"], error["message"], error["retryable"]) == ("ValueError", "odd input", True)
    assert "raise self.error" in error["traceback"]
    assert "worker_sdk/_" not in error["traceback"]


def test_texts_are_bounded_and_storable() -> None:
    error = error_of(error=ValueError("\0\ud800" + "x" * 1_000_000))
    assert error["message"].startswith("\ufffd?x")
    assert len(error["message"]) == MAX_MESSAGE
    assert len(error["traceback"]) == MAX_TRACEBACK


def test_an_exception_whose_text_cannot_be_had_is_still_reported() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert error_of(error=Mute())["message"] == "Mute (its message cannot be shown)"


class Bites(BaseException):
    def __str__(self) -> str:
        raise SystemExit

    __repr__ = __str__


def _changed(error: Any, **attributes: Any) -> Any:
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


@pytest.mark.parametrize(
    ("error", "retryable"),
    [
        (Bites(), True),
        (type("x" * 1_000_000, (Exception,), {})("named oddly"), True),
        (_changed(Fail("no"), code=7), False),
        (_changed(Retry("later"), after=float("nan")), True),
        (_changed(Retry("later"), after=object()), True),
        (GeneratorExit(), True),
        (StopIteration(), True),
        (KeyboardInterrupt(), True),
        (BaseExceptionGroup("many", [Bites(), KeyError()]), True),
    ],
    ids=["bites", "long name", "code", "nan", "object", "GeneratorExit", "StopIteration", "Ctrl-C", "group"],
)
def test_no_exception_whatever_it_does_escapes_or_costs_the_slot(
    error: BaseException, retryable: bool
) -> None:
    found = error_of(error=error)
    assert found["retryable"] is retryable
    assert found["message"]
    assert len(json.dumps(found)) < 20_000


class Awaitable:
    def __await__(self) -> Any:
        yield


def _generated(ended: list[str]) -> Any:
    try:
        yield 1
    finally:
        ended.append("ended")


async def _awaited() -> None:
    """Do nothing, later."""


async def _async_generated() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: _generated([]), "a generator"),
        (_awaited, "a coroutine"),
        (_async_generated, "an asyncgen"),
        (Awaitable, "an awaitable"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_has_not_run_is_no_result(make: Any, what: str) -> None:
    error = error_of(make())
    assert error["message"] == f"the result is not JSON: handle returned {what}, which has not run"
    assert error["retryable"] is False


def test_an_exception_without_text_is_named() -> None:
    assert error_of(error=KeyError())["message"] == "KeyError"


def test_sys_exit_in_a_handler_is_a_failure_like_any_other() -> None:
    class Leaves(Handler):
        def handle(self, sub_task: SubTask) -> Any:
            sys.exit(3)

    outcome = run_handler(Leaves, None)
    assert outcome.error is not None
    assert outcome.error["type"] == "SystemExit"
    assert outcome.retryable


@pytest.mark.parametrize("after", [30, 30.0, timedelta(seconds=30)])
def test_retry_says_when(after: Any) -> None:
    error = error_of(error=Retry("busy", after=after))
    assert (error["message"], error["retryable"], error["retry_after_seconds"]) == ("busy", True, 30.0)


def test_retry_without_a_time_leaves_it_to_rvq() -> None:
    assert "retry_after_seconds" not in error_of(error=Retry())


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), 604_801, timedelta(days=8)])
def test_a_retry_at_no_time_at_all_is_a_programming_error(after: Any) -> None:
    with pytest.raises(ValueError, match="from 0 seconds"):
        Retry(after=after)


def test_fail_is_final_and_carries_code_and_details() -> None:
    error = error_of(error=Fail("no such file", code="missing", details={"path": "/a"}))
    assert error == {
        "message": "no such file",
        "type": "Fail",
        "retryable": False,
        "code": "missing",
        "details": {"path": "/a"},
    }


@pytest.mark.parametrize("details", [object(), "x" * 300_000, float("nan")], ids=["object", "large", "nan"])
def test_details_that_cannot_be_reported_do_not_hide_the_failure(details: Any) -> None:
    error = error_of(error=Fail("bad", details=details))
    assert error["message"] == "bad"
    assert error["details"].startswith("the details cannot be reported")


def test_cancelled_counts_only_when_it_was_asked_for() -> None:
    handler = Does()
    handler.error = Cancelled("stopping")
    wanted, unwanted = sub_task(), sub_task()
    wanted.cancelled.set()
    assert perform(handler.handle, wanted) is None
    outcome = perform(handler.handle, unwanted)
    assert outcome is not None
    assert json.loads(outcome.document)["retryable"] is True


def test_a_report_is_one_item_of_a_complete_request() -> None:
    report = Outcome(True, b'{"price": 1.10}').report('sub_"1', "abc")
    assert report == b'{"id":"sub_\\"1","lease_token":"abc","status":"succeeded","result":{"price": 1.10}}'


class Reads(Handler):
    def handle(self, sub_task: SubTask) -> Any:
        return sub_task.payload


@pytest.mark.parametrize("payload", [b'{"cut": ', b"[" * 100_000 + b"]" * 100_000, b"9" * 5000])
def test_a_payload_that_python_cannot_decode_fails_for_good(payload: bytes) -> None:
    outcome = run_handler(Reads, Raw(payload))
    assert outcome.error is not None
    assert outcome.error["code"] == "payload_undecodable"
    assert not outcome.retryable


def test_payload_bytes_are_there_even_when_the_payload_is_not() -> None:
    assert sub_task(b"9" * 5000).payload_bytes == b"9" * 5000


def test_large_integers_stay_exact() -> None:
    assert run_handler(Reads, Raw(b"9007199254740993")).result_bytes == b"9007199254740993"


def test_a_sub_task_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        sub_task().attempt = 2  # type: ignore[misc]


def test_the_payload_is_decoded_once() -> None:
    one = sub_task(b"[1]")
    assert one.payload is one.payload


def test_the_last_attempt_knows_that_it_is() -> None:
    assert not SubTask("s", "t", 0, "q", 4, 5, b"0").last_attempt
    assert SubTask("s", "t", 0, "q", 5, 5, b"0").last_attempt
