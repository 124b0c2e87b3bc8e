"""Counters are exact at any moment, folded or not, and can be repaired."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sql.calls import URL, Calls
from tests.support.concurrency import background, wait_until_blocked

COUNTERS = [
    *("scheduled", "queued", "claimed", "succeeded", "failed", "cancelled", "tasks_open", "tasks_started"),
    *("tasks_succeeded", "tasks_failed", "tasks_cancelled"),
    *("deliveries_pending", "deliveries_delivered", "deliveries_dead"),
]


def counted(rvq: Calls) -> dict[tuple[str, str], int]:
    """Every counter that is not 0, by queue and name."""
    return {(row[0], row[1]): row[2] for row in rvq.rows("SELECT queue, counter, counted FROM rvq.audit()")}


def drift(rvq: Calls) -> dict[str, int]:
    sql = "SELECT counter, counted - truth FROM rvq.audit() WHERE counted <> truth"
    return {row[0]: row[1] for row in rvq.rows(sql)}


def repair(rvq: Calls) -> int:
    return int(rvq.value("SELECT rvq.repair_counters()"))


def some_of_everything(rvq: Calls) -> None:
    ended = rvq.create(3, webhook=URL)
    rvq.succeed(*rvq.claim(2))
    rvq.fail_for_good(rvq.claim_one())
    rvq.settle(*rvq.claim_deliveries())
    rvq.cancel(rvq.create(2, webhook=URL))
    rvq.give_up(*rvq.claim_deliveries())
    rvq.create(4)
    rvq.fail(rvq.claim_one(), retry_after=100)
    rvq.succeed(rvq.claim_one())
    rvq.claim(1)
    rvq.create(1, queue="other", webhook=URL)
    rvq.succeed(*rvq.claim(1, queues=["other"]))
    assert rvq.task(ended).status == "failed"


EVERYTHING = {
    **{("default", name): 1 for name in ("scheduled", "queued", "claimed", "failed", "tasks_open")},
    **{("default", name): 1 for name in ("tasks_started", "tasks_failed", "tasks_cancelled")},
    ("default", "deliveries_delivered"): 1,
    ("default", "deliveries_dead"): 1,
    ("default", "succeeded"): 3,
    ("default", "cancelled"): 2,
    **{("other", name): 1 for name in ("succeeded", "tasks_succeeded", "deliveries_pending")},
}


def test_every_change_is_counted_where_it_happened(rvq: Calls) -> None:
    some_of_everything(rvq)
    assert counted(rvq) == EVERYTHING
    assert drift(rvq) == {}


def test_folding_moves_everything_and_changes_nothing(rvq: Calls) -> None:
    some_of_everything(rvq)
    pending = rvq.value("SELECT count(*) FROM rvq.counter_deltas")
    assert rvq.fold() == pending > 0
    assert rvq.value("SELECT count(*) FROM rvq.counter_deltas") == 0
    assert counted(rvq) == EVERYTHING
    assert rvq.fold() == 0
    rvq.create(2)
    rvq.fold()
    assert counted(rvq) == {**EVERYTHING, ("default", "queued"): 3, ("default", "tasks_open"): 2}


def test_a_delta_that_is_not_committed_is_not_counted_and_not_folded(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    rvq.create(2)
    other = in_transaction()
    other.create(3)
    assert counted(rvq)[("default", "queued")] == 2
    rvq.fold()
    other.connection.commit()
    assert counted(rvq)[("default", "queued")] == 5
    rvq.fold()
    assert counted(rvq)[("default", "queued")] == 5


def test_a_fold_that_rolls_back_loses_nothing(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    rvq.create(2)
    folder = in_transaction()
    assert folder.fold() == 1
    folder.connection.rollback()
    assert counted(rvq)[("default", "queued")] == 2
    assert rvq.fold() == 1


def test_only_one_folds_at_a_time_and_the_other_does_not_wait(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    rvq.create(2)
    folder = in_transaction()
    folder.fold()
    assert rvq.fold() == 0
    folder.connection.commit()
    assert counted(rvq)[("default", "queued")] == 2


def test_writers_do_not_wait_for_a_fold(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    rvq.create(2)
    folder = in_transaction()
    folder.fold()
    rvq.rows("SET lock_timeout = '1s'")
    rvq.succeed(*rvq.claim(2))
    rvq.create(1)
    rvq.rows("RESET lock_timeout")
    folder.connection.commit()
    assert drift(rvq) == {}


@pytest.mark.parametrize("counter", COUNTERS)
def test_the_audit_sees_a_broken_counter_and_the_repair_mends_it(rvq: Calls, counter: str) -> None:
    some_of_everything(rvq)
    rvq.rows(f"INSERT INTO rvq.counter_deltas (queue, {counter}) VALUES ('default', 7)")
    assert drift(rvq) == {counter: 7}
    assert repair(rvq) == 1
    assert counted(rvq) == EVERYTHING
    assert repair(rvq) == 0


def test_counters_lost_altogether_are_rebuilt(rvq: Calls) -> None:
    some_of_everything(rvq)
    rvq.fold()
    rvq.rows("DELETE FROM rvq.counters")
    assert repair(rvq) == len(EVERYTHING)
    assert counted(rvq) == EVERYTHING


def test_counters_of_a_queue_that_never_was_are_taken_away(rvq: Calls) -> None:
    rvq.rows("INSERT INTO rvq.counters (queue, queued, tasks_open) VALUES ('ghost', 3, -1)")
    assert repair(rvq) == 2
    assert counted(rvq) == {}


def test_two_repairs_at_once_mend_once(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    rvq.create(2)
    rvq.rows("INSERT INTO rvq.counter_deltas (queue, queued) VALUES ('default', 7)")
    first, second = in_transaction(), another()
    assert repair(first) == 1
    with background(repair, second) as answer:
        wait_until_blocked(rvq.connection, second.connection, first.connection)
        first.connection.commit()
        assert answer.result(10) == 0
    assert drift(rvq) == {}


def test_folding_repairing_and_auditing_under_traffic_see_no_drift(
    rvq: Calls, another: Callable[[], Calls]
) -> None:
    seed = random.randrange(2**32)
    writers, folders, auditor = ([another() for _ in range(n)] for n in (4, 2, 1))

    def write(client: Calls, number: int) -> None:
        rng = random.Random(seed + number)
        for _ in range(60):
            client.create(rng.randint(1, 4), queue=rng.choice("ab"), webhook=rng.choice([None, URL]))
            leases = client.claim(rng.randint(1, 6), queues=["a", "b"])
            kept, given_back = leases[::2], leases[1::2]
            client.succeed(*kept) if kept else client.promote()
            client.release(*given_back) if given_back else client.expire()

    def fold(client: Calls) -> None:
        for _ in range(60):
            client.fold()

    def watch(client: Calls) -> list[dict[str, int]]:
        return [found for _ in range(25) if (found := drift(client))]

    with ThreadPoolExecutor(8) as executor:
        writing = [executor.submit(write, client, n) for n, client in enumerate(writers)]
        folding = [executor.submit(fold, client) for client in folders]
        watching = executor.submit(watch, auditor[0])
        repaired = [repair(rvq) for _ in range(10)]
        for future in writing + folding:
            future.result(60)
        assert watching.result(60) == [], f"seed {seed}"
    assert repaired == [0] * 10, f"seed {seed}"
    assert drift(rvq) == {}, f"seed {seed}"
