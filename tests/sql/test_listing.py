"""Lists: newest tasks first, sub_tasks in the order given, pages stable under inserts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from tests.sql.calls import NEWEST, URL, Calls, Task, success
from tests.support.database import Database


def all_pages(rvq: Calls, status: str | None = None, limit: int = 2) -> list[int]:
    found: list[int] = []
    before = NEWEST
    while page := rvq.tasks(status, limit, before):
        assert len(page) <= limit
        before = page[-1].id
        found += [task.id for task in page]
    return found


@pytest.fixture
def by_status(rvq: Calls) -> dict[str, list[int]]:
    """Two tasks of each status."""
    found: dict[str, list[int]] = {}
    for n in range(2):
        for status in ("queued", "running", "succeeded", "failed", "cancelled"):
            queue = f"{status}{n}"
            task_id = rvq.create(2, queue=queue)
            found.setdefault(status, []).insert(0, task_id)
            leases = rvq.claim(0 if status == "queued" else 2, queues=[queue]) if status != "queued" else []
            if status == "succeeded":
                rvq.succeed(*leases)
            elif status == "failed":
                rvq.fail_for_good(*leases)
            elif status == "cancelled":
                rvq.cancel(task_id)
    return found


def test_a_not_before_that_lies_beyond_what_can_be_read_is_listed_all_the_same(rvq: Calls) -> None:
    task_id = rvq.create(not_before=datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-14))))
    (sub_task,) = rvq.sub_tasks(task_id)
    assert (sub_task.status, sub_task.queued_at.year) == ("scheduled", 9999)


def test_tasks_are_listed_newest_first(rvq: Calls, by_status: dict[str, list[int]]) -> None:
    everything = sorted((i for found in by_status.values() for i in found), reverse=True)
    assert all_pages(rvq) == everything
    assert [task.id for task in rvq.tasks(limit=100)] == everything


def test_tasks_are_listed_by_status(rvq: Calls, by_status: dict[str, list[int]]) -> None:
    for status, expected in by_status.items():
        assert all_pages(rvq, status) == expected
        assert all_pages(rvq, status, limit=1) == expected
        assert {task.status for task in rvq.tasks(status)} == {status}


def test_every_open_task_is_listed_under_the_status_it_is_read_with(rvq: Calls) -> None:
    fresh, started, waiting, given_back, held = (rvq.create(2, queue=queue) for queue in "abcde")
    rvq.succeed(*rvq.claim(1, queues=["b"]))
    rvq.fail(*rvq.claim(1, queues=["c"]), retry_after=100)
    rvq.release(*rvq.claim(2, queues=["d"]))
    rvq.claim(1, queues=["e"])
    for status, expected in {"queued": [given_back, fresh], "running": [held, waiting, started]}.items():
        assert all_pages(rvq, status) == expected
        assert {rvq.task(task_id).status for task_id in expected} == {status}


@pytest.mark.parametrize("status", ["queued", "running"])
def test_only_the_tasks_on_the_page_are_viewed_however_many_are_open(
    rvq: Calls, in_transaction: Callable[[], Calls], status: str
) -> None:
    for _ in range(100):
        rvq.create(2)
    rvq.claim(100 if status == "queued" else 2)
    reader = in_transaction()
    scans = "SELECT idx_scan FROM pg_stat_xact_all_tables WHERE relid = 'rvq.open_sub_tasks'::regclass"
    before = reader.value(scans)
    page = reader.tasks(status, 3, NEWEST)
    assert len(page) == (3 if status == "queued" else 1)
    read = reader.value(scans) - before
    reader.connection.commit()
    assert read == len(page) + 2, "two scans find out which were claimed, one views each task"


def test_a_listed_task_is_the_task_that_is_read(rvq: Calls, by_status: dict[str, list[int]]) -> None:
    listed: list[Task] = rvq.tasks()
    assert listed == [rvq.task(task.id) for task in listed]


def test_pages_are_stable_under_inserts(rvq: Calls) -> None:
    tasks = [rvq.create() for _ in range(4)]
    first = rvq.tasks(limit=2)
    rvq.create()
    rest = rvq.tasks(before=first[-1].id)
    assert [t.id for t in [*first, *rest]] == tasks[::-1]


def test_a_reopened_task_is_listed_once_under_its_present_status(rvq: Calls) -> None:
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    rvq.retry(task_id)
    assert (all_pages(rvq, "failed"), all_pages(rvq, "running")) == ([], [task_id])
    rvq.fail_for_good(rvq.claim_one())
    assert (all_pages(rvq, "failed"), all_pages(rvq, "running")) == ([task_id], [])
    rvq.retry(task_id)
    rvq.succeed(rvq.claim_one())
    assert (all_pages(rvq, "failed"), all_pages(rvq, "succeeded")) == ([], [task_id])


def test_tasks_of_several_days_are_in_one_list(rvq: Calls, database: Database) -> None:
    tasks = []
    for day in range(3):
        database.move_clock(day * 86_400)
        tasks.append(rvq.create())
    rvq.cancel(tasks[0])
    assert all_pages(rvq) == tasks[::-1]
    assert all_pages(rvq, "queued", 1) == [tasks[2], tasks[1]]


def test_sub_tasks_are_listed_in_pages_in_the_order_given(rvq: Calls) -> None:
    task_id = rvq.create(25)
    rvq.create(5)
    found, after = [], 0
    while page := rvq.sub_tasks(task_id, limit=7, after=after):
        after = page[-1].id
        found += [s.payload for s in page]
    assert found == [str(n) for n in range(25)]


def test_sub_tasks_are_listed_by_status(rvq: Calls, database: Database) -> None:
    task_id = rvq.create(6)
    leases = rvq.claim(5)
    rvq.succeed(leases[0])
    rvq.fail_for_good(leases[1])
    rvq.fail(leases[2], retry_after=100)
    rvq.release(leases[3])
    for status, ordinals in {
        "succeeded": [1],
        "failed": [2],
        "scheduled": [3],
        "queued": [4, 6],
        "claimed": [5],
        "cancelled": [],
    }.items():
        assert [s.id - task_id for s in rvq.sub_tasks(task_id, status)] == ordinals
    rvq.cancel(task_id)
    assert [s.id - task_id for s in rvq.sub_tasks(task_id, "cancelled")] == [3, 4, 5, 6]


def test_a_sub_task_shows_its_last_error_while_it_is_tried_again(rvq: Calls) -> None:
    task_id = rvq.create()
    rvq.fail(rvq.claim_one(), error='{"message":"first"}', retry_after=0)
    rvq.fail(rvq.claim_one(), error='{"message":"second"}', retry_after=0)
    (waiting,) = rvq.sub_tasks(task_id)
    assert (waiting.error, waiting.finished_at) == ('{"message":"second"}', None)
    rvq.succeed(rvq.claim_one())
    (done,) = rvq.sub_tasks(task_id)
    assert (done.error, done.attempt, done.result) == (None, 3, '{"ok":true}')


def test_deliveries_of_a_task_are_told_attempt_by_attempt(rvq: Calls) -> None:
    task_id = rvq.create(webhook=URL)
    assert deliveries_of(rvq, task_id) == []
    rvq.fail_for_good(rvq.claim_one())
    assert deliveries_of(rvq, task_id) == [(task_id, "pending", "failed", None, None)]
    rvq.put_off(*rvq.claim_deliveries(), delay=0)
    rvq.give_up(*rvq.claim_deliveries())
    rvq.retry(task_id)
    rvq.succeed(rvq.claim_one())
    rvq.settle(*rvq.claim_deliveries())
    assert deliveries_of(rvq, task_id) == [
        (task_id, "dead", "failed", 1, "timeout"),
        (task_id, "dead", "failed", 2, "http_error"),
        (task_id + 1, "delivered", "succeeded", 1, "delivered"),
    ]


def deliveries_of(rvq: Calls, task_id: int) -> list[tuple[object, ...]]:
    columns = "delivery_id, status, event_status, attempt, outcome"
    return rvq.rows(f"SELECT {columns} FROM rvq.list_deliveries_of_task(%s)", (task_id,))


def test_the_attempts_of_several_deliveries_are_listed_in_pages(rvq: Calls) -> None:
    task_id = rvq.create(webhook=URL, max_attempts=1)
    for _ in range(3):
        rvq.fail(rvq.claim_one())
        rvq.put_off(*rvq.claim_deliveries(), delay=0)
        rvq.settle(*rvq.claim_deliveries(), answer=b"12345678")
        rvq.retry(task_id)
    rvq.fail(rvq.claim_one())
    whole = [(task_id + run, attempt) for run in range(3) for attempt in (1, 2)] + [(task_id + 3, None)]
    for limit, size in [(1, None), (2, None), (3, None), (7, None), (100, 1), (100, 9), (100, 100)]:
        found: list[tuple[int, int | None]] = []
        after = (0, 0)
        while page := rvq.rows(
            "SELECT delivery_id, attempt, answer FROM rvq.list_deliveries_of_task(%s, %s, %s, %s, %s)",
            (task_id, limit, *after, size),
        ):
            assert len(page) <= limit
            assert size is None or sum(len(row[2] or b"") for row in page[:-1]) < size
            found += [(row[0], row[1]) for row in page]
            after = (page[-1][0], page[-1][1] or 0)
        assert found == whole, (limit, size)


def test_a_page_of_sub_tasks_ends_once_it_has_so_many_bytes(rvq: Calls) -> None:
    task_id = rvq.create(payloads=["123456", "12", "1234", "1"])
    rvq.complete(success(rvq.claim_one(), "12"))
    sql = "SELECT id FROM rvq.list_sub_tasks(%s, NULL, %s, %s, %s)"
    for size, expected in {
        0: [],
        1: [1],
        8: [1],
        9: [1, 2],
        11: [1, 2, 3],
        14: [1, 2, 3],
        15: [1, 2, 3, 4],
    }.items():
        found = [row[0] - task_id for row in rvq.rows(sql, (task_id, 100, 0, size))]
        assert found == expected, size
    assert rvq.rows(sql, (task_id, 100, task_id + 2, 1)) == [(task_id + 3,)]


@pytest.fixture
def sent(rvq: Calls) -> dict[str, int]:
    """One delivery of each status, the dead one to another host."""
    found = {}
    settles: dict[str, Callable[..., object]] = {
        "delivered": rvq.settle,
        "dead": rvq.give_up,
        "pending": rvq.put_off,
    }
    for status, settle in settles.items():
        host = f"{status}.example"
        found[status] = rvq.create(webhook=f"https://{host}/", host=host)
        rvq.succeed(rvq.claim_one())
        settle(*rvq.claim_deliveries())
    return found


@pytest.mark.parametrize("status", ["delivered", "dead", "pending"])
def test_deliveries_are_listed_by_status_and_by_host(rvq: Calls, sent: dict[str, int], status: str) -> None:
    find = deliveries_finder(rvq)
    assert find(status=status) == [sent[status]]
    assert find(host=f"{status}.example") == [sent[status]]
    assert find(status=status, host="nobody.example") == []


def deliveries_finder(rvq: Calls) -> Callable[..., list[int]]:
    def find(
        status: str | None = None,
        host: str | None = None,
        since: object = None,
        limit: int = 10,
        before: int = NEWEST,
    ) -> list[int]:
        sql = "SELECT id FROM rvq.list_deliveries(%s, %s, %s, %s, %s)"
        return [row[0] for row in rvq.rows(sql, (status, host, since, limit, before))]

    return find


def test_deliveries_are_listed_newest_first_in_pages_and_since(rvq: Calls, sent: dict[str, int]) -> None:
    find = deliveries_finder(rvq)
    newest_first = sorted(sent.values(), reverse=True)
    assert find() == newest_first
    assert find(limit=1) + find(before=newest_first[0]) == newest_first
    sql = "SELECT clock_timestamp() + make_interval(hours => %s)"
    assert find(since=rvq.value(sql, (1,))) == []
    assert find(since=rvq.value(sql, (-1,))) == newest_first


def test_a_delivery_sent_again_is_pending_only(rvq: Calls, sent: dict[str, int]) -> None:
    find = deliveries_finder(rvq)
    rvq.redeliver(sent["dead"], sent["delivered"])
    assert (find("dead"), find("delivered")) == ([], [])
    assert find("pending") == sorted(sent.values(), reverse=True)
