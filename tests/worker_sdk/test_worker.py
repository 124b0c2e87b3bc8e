"""A whole worker with all its threads against a real socket."""

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.worker_sdk.api import PATIENCE, Drop, Hold, Reply, ScriptedAPI
from tests.worker_sdk.handlers import Double
from worker_sdk import Fail, Handler, Options, Raw, Retry, SubTask, Worker
from worker_sdk._worker import new_worker_id

Run = Callable[..., AbstractContextManager[Worker]]
BOTH = pytest.mark.parametrize("executor", ["thread", "process"])


@pytest.fixture
def run(api: ScriptedAPI) -> Run:
    @contextmanager
    def running(handler: type[Handler], **options: Any) -> Iterator[Worker]:
        worker = Worker(handler, Options.of(handler, **options), settings=api.settings)
        worker.start()
        try:
            yield worker
        finally:
            worker.stop()

    return running


def all_ended(api: ScriptedAPI) -> bool:
    return all(one.status in ("succeeded", "failed", "cancelled") for one in api.rvq.sub_tasks())


@BOTH
def test_everything_is_handled_once_and_results_come_back(api: ScriptedAPI, run: Run, executor: str) -> None:
    for number in range(300):
        api.rvq.submit(number)
    with run(Double, executor=executor):
        api.wait_until(lambda: all_ended(api))
    assert [one.result for one in api.rvq.sub_tasks()] == [number * 2 for number in range(300)]
    assert {one.attempt for one in api.rvq.sub_tasks()} == {1}
    assert len(api.calls("complete")) < 200


class Ends(Handler):
    poll_seconds = (0.01, 0.05)

    def handle(self, sub_task: SubTask) -> Any:
        match sub_task.payload:
            case "retry":
                if sub_task.attempt == 1:
                    raise Retry(after=0.01)
                return sub_task.attempt
            case "fail":
                raise Fail("no", code="no")
            case "bug":
                raise KeyError("a")
            case "nan":
                return float("nan")
            case "raw":
                return Raw(b'{"price": 1.10}')
            case _:
                return 1


@BOTH
def test_each_end_reaches_rvq(api: ScriptedAPI, run: Run, executor: str) -> None:
    ids = {
        payload: api.rvq.submit(payload, max_attempts=2) for payload in ("retry", "fail", "bug", "nan", "raw")
    }
    with run(Ends, executor=executor):
        api.wait_until(lambda: all_ended(api))
    found = {payload: api.rvq.sub_task(ids[payload]) for payload in ids}
    assert {payload: (one.status, one.attempt) for payload, one in found.items()} == {
        "retry": ("succeeded", 2),
        "fail": ("failed", 1),
        "bug": ("failed", 2),
        "nan": ("failed", 1),
        "raw": ("succeeded", 1),
    }
    assert found["raw"].result_bytes == b'{"price": 1.10}'


def test_an_outage_loses_no_result_and_repeats_no_work(api: ScriptedAPI, run: Run) -> None:
    begun, gate, handled = threading.Event(), threading.Event(), []

    class Gated(Double):
        def handle(self, sub_task: SubTask) -> Any:
            begun.set()
            gate.wait()
            handled.append(sub_task.id)
            return 1

    for number in range(20):
        api.rvq.submit(number)
    with run(Gated) as worker:
        api.wait_until(begun.is_set)
        api.down()
        gate.set()
        while worker._completer._backoff.failures < 3:
            worker._leases.wait_for_change(0.01)
        assert api.rvq.sub_tasks()[0].status == "claimed"
        api.up()
        api.wait_until(lambda: all_ended(api))
    assert sorted(handled) == [one.id for one in api.rvq.sub_tasks()]
    assert {one.attempt for one in api.rvq.sub_tasks()} == {1}


def test_during_an_outage_no_more_work_is_taken_on(api: ScriptedAPI, run: Run) -> None:
    api.judge = lambda request: Reply(503) if request.verb == "complete" else None
    for number in range(100):
        api.rvq.submit(number)
    with run(Double):
        api.wait_until(lambda: len(api.calls("complete")) >= 3)
        claims = len(api.calls("claim"))
        api.wait_until(lambda: len(api.calls("complete")) >= 5)
        assert len(api.calls("claim")) == claims
        first, *repeats = (request.body for request in api.calls("complete"))
        assert first in repeats
        api.judge = lambda _: None
        api.wait_until(lambda: all_ended(api))


@BOTH
def test_a_stored_batch_whose_answer_was_lost_is_repeated_without_harm(
    api: ScriptedAPI, run: Run, executor: str
) -> None:
    api.script("complete", Drop(after_work=True), Drop(after_work=True))
    for number in range(10):
        api.rvq.submit(number)
    with run(Double, executor=executor) as worker:
        api.wait_until(lambda: len(api.calls("complete")) >= 3 and all_ended(api))
        assert worker.stop() is True
    assert {one.attempt for one in api.rvq.sub_tasks()} == {1}


def test_one_result_that_is_refused_costs_the_others_nothing(api: ScriptedAPI, run: Run) -> None:
    api.judge = lambda request: Reply(413) if b'"nonono' in request.body else None
    for payload in (1, 2, "no", 3, 4):
        api.rvq.submit(payload)

    class Triple(Double):
        def handle(self, sub_task: SubTask) -> Any:
            return sub_task.payload * 3

    with run(Triple):
        api.wait_until(lambda: all_ended(api))
    assert [one.result for one in api.rvq.sub_tasks()] == [3, 6, None, 9, 12]
    assert api.rvq.sub_tasks()[2].error["code"] == "result_refused"  # type: ignore[index]


def test_a_handler_longer_than_its_lease_keeps_it(api: ScriptedAPI, run: Run) -> None:
    gate = threading.Event()

    class Long(Double):
        lease_seconds = 1

        def handle(self, sub_task: SubTask) -> Any:
            gate.wait()
            return sub_task.attempt

    api.rvq.submit(1)
    with run(Long):
        api.wait_until(lambda: len(api.calls("heartbeat")) >= 5)
        gate.set()
        api.wait_until(lambda: all_ended(api))
    assert api.rvq.sub_tasks()[0].result == 1


def test_a_server_that_asks_heartbeats_to_wait_loses_no_lease(api: ScriptedAPI, run: Run) -> None:
    begun, gate = threading.Event(), threading.Event()

    class Long(Double):
        lease_seconds = 6

        def handle(self, sub_task: SubTask) -> Any:
            begun.set()
            gate.wait()
            return "first"

    refused = Reply(503, headers={"Retry-After": "60"})
    api.script("heartbeat", refused, refused)
    api.rvq.submit(1)
    with run(Long):
        assert begun.wait(PATIENCE)
        with run(Double):
            api.wait_until(lambda: len(api.calls("heartbeat")) >= 3)
            gate.set()
            api.wait_until(lambda: all_ended(api))
    assert (api.rvq.sub_tasks()[0].result, api.rvq.sub_tasks()[0].attempt) == ("first", 1)


def test_a_handler_is_told_that_its_lease_may_be_gone_while_a_heartbeat_hangs(
    api: ScriptedAPI, run: Run
) -> None:
    answer, told = threading.Event(), threading.Event()

    class Asks(Double):
        lease_seconds = 1

        def handle(self, sub_task: SubTask) -> Any:
            sub_task.cancelled.wait()
            told.set()
            sub_task.raise_if_cancelled()

    api.judge = lambda request: Hold(answer) if request.verb == "heartbeat" else None
    api.rvq.submit(1, max_attempts=1)
    with run(Asks):
        assert told.wait(PATIENCE)
        assert all(one.status != "succeeded" for one in api.rvq.sub_tasks())
        answer.set()


def test_a_handler_that_stops_although_nobody_told_it_is_a_failure(api: ScriptedAPI, run: Run) -> None:
    class Stops(Double):
        def handle(self, sub_task: SubTask) -> Any:
            sub_task.cancelled.set()
            sub_task.raise_if_cancelled()

    api.rvq.submit(1, max_attempts=1)
    with run(Stops):
        api.wait_until(lambda: all_ended(api))
    assert api.rvq.sub_tasks()[0].error["message"] == "the handler stopped, and nobody had told it to"  # type: ignore[index]


def test_logs_that_can_not_be_written_cost_no_result(api: ScriptedAPI, run: Run) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ValueError("I/O operation on closed file")

    broken = Broken()
    logging.getLogger("worker_sdk").addHandler(broken)
    try:
        api.script("complete", Reply(503), Reply(500))
        api.script("heartbeat", Reply(503))
        for number in range(10):
            api.rvq.submit(number)
        with run(Double):
            api.wait_until(lambda: all_ended(api))
    finally:
        logging.getLogger("worker_sdk").removeHandler(broken)
    assert [one.result for one in api.rvq.sub_tasks()] == [number * 2 for number in range(10)]


def test_a_fork_of_a_program_that_embeds_a_worker_gives_nothing_back(api: ScriptedAPI, run: Run) -> None:
    begun, gate = threading.Event(), threading.Event()

    class Gated(Double):
        def handle(self, sub_task: SubTask) -> Any:
            begun.set()
            gate.wait()
            return 1

    api.rvq.submit(1)
    with run(Gated) as worker:
        assert begun.wait(PATIENCE)
        pid = os.fork()
        if pid == 0:
            worker._claimer.release(worker._leases.all(), "a fork has no business with")
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        gate.set()
        api.wait_until(lambda: all_ended(api))
    assert api.calls("release") == []


def test_a_handler_sees_that_its_sub_task_was_cancelled(api: ScriptedAPI, run: Run) -> None:
    stopped = threading.Event()

    class Patient(Double):
        lease_seconds = 1

        def handle(self, sub_task: SubTask) -> Any:
            sub_task.cancelled.wait()
            stopped.set()
            sub_task.raise_if_cancelled()

    sub_task_id = api.rvq.submit(1)
    with run(Patient):
        api.wait_until(lambda: api.rvq.sub_task(sub_task_id).status == "claimed")
        api.rvq.cancel(sub_task_id)
        assert stopped.wait(20)
    assert api.calls("complete") == []


def test_a_handler_out_of_time_that_stops_is_reported_as_timed_out(api: ScriptedAPI, run: Run) -> None:
    class Slow(Double):
        timeout_seconds = 0.05

        def handle(self, sub_task: SubTask) -> Any:
            assert sub_task.deadline is not None
            sub_task.cancelled.wait()
            sub_task.raise_if_cancelled()

    api.rvq.submit(1, max_attempts=1)
    with run(Slow):
        api.wait_until(lambda: all_ended(api))
    assert api.rvq.sub_tasks()[0].error["code"] == "timed_out"  # type: ignore[index]


def test_stopping_releases_what_a_claim_under_way_still_brings(api: ScriptedAPI, run: Run) -> None:
    answer = threading.Event()
    for number in range(3):
        api.rvq.submit(number)
    api.script("claim", Hold(answer))
    with run(Double) as worker:
        while not api.calls("claim"):
            worker._leases.wait_for_change(0.01)
        stopping = threading.Thread(target=worker.stop)
        stopping.start()
        while not worker._claiming._stopped:
            worker._leases.wait_for_change(0.01)
        answer.set()
        stopping.join(20)
        assert not stopping.is_alive()
    assert [(one.status, one.attempt) for one in api.rvq.sub_tasks()] == [("queued", 0)] * 3


def test_setup_and_teardown_run_once_around_everything(api: ScriptedAPI, run: Run) -> None:
    calls: list[str] = []

    class Hooked(Double):
        def setup(self) -> None:
            calls.append("setup")

        def handle(self, sub_task: SubTask) -> Any:
            calls.append("handle")

        def teardown(self) -> None:
            calls.append("teardown")

    api.rvq.submit(1)
    with run(Hooked):
        api.wait_until(lambda: all_ended(api))
    assert calls == ["setup", "handle", "teardown"]


def test_a_failing_setup_keeps_the_worker_from_claiming(api: ScriptedAPI) -> None:
    class Broken(Double):
        def setup(self) -> None:
            raise RuntimeError("no model")

    with pytest.raises(RuntimeError, match="no model"):
        Worker(Broken, settings=api.settings).start()
    assert api.requests == []


def test_no_two_workers_have_the_same_id() -> None:
    assert len({new_worker_id() for _ in range(100)}) == 100
