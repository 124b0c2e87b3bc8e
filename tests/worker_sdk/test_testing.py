"""What users test their handlers with."""

from typing import Any

import pytest

from tests.worker_sdk.handlers import Double
from tests.worker_sdk.loops import Clock
from worker_sdk import APIError, Fail, Handler, Raw, Retry, SubTask
from worker_sdk._client import Client
from worker_sdk._sub_task import Claimed
from worker_sdk.testing import FakeRVQ, run_handler


class Picky(Handler):
    """A handler that can end in every way."""

    queue = "picky"
    poll_seconds = (0.01, 0.05)

    def setup(self) -> None:
        self.ready = True

    def handle(self, sub_task: SubTask) -> Any:
        assert self.ready
        sub_task.raise_if_cancelled()
        if sub_task.payload == "later":
            raise Retry(after=7)
        if sub_task.payload == "never":
            raise Fail("no")
        return {"queue": sub_task.queue, "attempt": sub_task.attempt, "pair": (1, 2)}


def test_a_handler_is_run_once_with_its_hooks() -> None:
    outcome = run_handler(Picky, None, attempt=3)
    assert outcome.status == "succeeded"
    assert outcome.result == {"queue": "picky", "attempt": 3, "pair": [1, 2]}


def test_the_other_ends_show_too() -> None:
    later, never, told = (
        run_handler(Picky, "later"),
        run_handler(Picky, "never"),
        run_handler(Picky, 1, cancelled=True),
    )
    assert (later.status, later.retryable, later.retry_after) == ("failed", True, 7.0)
    assert (never.status, never.retryable) == ("failed", False)
    assert never.error == {"message": "no", "type": "Fail", "retryable": False}
    assert told.status == "cancelled"


def test_a_whole_worker_runs_without_a_network() -> None:
    rvq = FakeRVQ()
    ids = [rvq.submit(number) for number in range(200)]
    other = rvq.submit(1, queue="other")
    rvq.work_off(Double)
    assert [rvq.sub_task(one).result for one in ids] == [number * 2 for number in range(200)]
    assert rvq.sub_task(other).status == "queued"


def test_a_worker_that_cannot_go_on_says_so() -> None:
    class Deaf(FakeRVQ):
        def post(self, path: str, body: bytes) -> Any:
            return super().post("/elsewhere", body)

    with pytest.raises(APIError, match="404"):
        Deaf().work_off(Double)


@pytest.mark.parametrize("payload", [b"{", b"NaN", b"1 2", b"\xff"])
def test_a_payload_that_rvq_would_refuse_cannot_be_submitted(payload: bytes) -> None:
    with pytest.raises(ValueError):
        FakeRVQ().submit(Raw(payload))


class Fake:
    """FakeRVQ with a clock to move and a client to call."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.rvq = FakeRVQ(self.clock)
        self.client = Client(self.rvq, "worker-1")

    def claim(self) -> Claimed:
        (claimed,) = self.client.claim(1, 60, ["default"])
        return claimed

    def succeed(self, claimed: Claimed) -> str:
        item = (
            f'{{"id":"{claimed.id}","lease_token":"{claimed.lease_token}","status":"succeeded","result":1}}'
        )
        return self.client.complete([item.encode()])[0]

    def fail(self, claimed: Claimed, error: str) -> str:
        item = (
            f'{{"id":"{claimed.id}","lease_token":"{claimed.lease_token}","status":"failed","error":{error}}}'
        )
        return self.client.complete([item.encode()])[0]


@pytest.fixture
def fake() -> Fake:
    return Fake()


def test_the_fake_answers_as_rvq_does(fake: Fake) -> None:
    fake.rvq.submit(Raw(b'{"a":  1.10}'), max_attempts=2)
    first = fake.claim()
    assert (first.payload_bytes, first.attempt) == (b'{"a":  1.10}', 1)
    assert fake.fail(first, '{"message": "a", "retry_after_seconds": 5}') == "retrying"
    assert fake.fail(first, '{"message": "a"}') == "duplicate"
    assert fake.client.claim(1, 60, ["default"]) == []
    fake.clock.now += 5
    second = fake.claim()
    assert second.attempt == 2
    assert fake.succeed(first) == "duplicate"
    assert fake.succeed(second) == "succeeded"
    assert fake.succeed(second) == "duplicate"


def test_a_lease_of_the_fake_runs_out_and_costs_the_attempt(fake: Fake) -> None:
    sub_task_id = fake.rvq.submit(1, max_attempts=1)
    fake.claim()
    fake.clock.now += 60
    assert fake.client.claim(1, 60, ["default"]) == []
    assert fake.rvq.sub_task(sub_task_id).status == "failed"
    assert fake.rvq.sub_task(sub_task_id).error == {"message": "the lease expired", "code": "lease_expired"}


def test_a_late_outcome_that_nobody_took_over_still_counts(fake: Fake) -> None:
    sub_task_id = fake.rvq.submit(1)
    claimed = fake.claim()
    fake.clock.now += 60
    assert fake.succeed(claimed) == "succeeded"
    assert fake.rvq.sub_task(sub_task_id).status == "succeeded"


def test_a_lease_that_another_worker_took_over_is_stale(fake: Fake) -> None:
    fake.rvq.submit(1)
    first = fake.claim()
    fake.clock.now += 60
    second = fake.claim()
    assert fake.succeed(first) == "stale"
    assert fake.succeed(second) == "succeeded"


def test_a_release_gives_the_attempt_back(fake: Fake) -> None:
    fake.rvq.submit(1)
    claimed = fake.claim()

    class Lease:
        id, token = claimed.id, claimed.lease_token

    assert fake.client.release([Lease()]) == ["released"]
    assert fake.client.release([Lease()]) == ["stale"]
    assert fake.claim().attempt == 1
