"""The feed of events: commit order, and nothing ever appears behind a cursor handed out."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.sql.calls import Calls
from tests.support.concurrency import wait_until

Cursor = tuple[str, int]
START: Cursor = ("0", 0)


def page(rvq: Calls, cursor: Cursor = START, limit: int = 100) -> list[tuple[str, int, str]]:
    sql = "SELECT xid::text, id, body FROM rvq.list_events(%s::xid8, %s, %s)"
    return [(row[0], row[1], row[2]) for row in rvq.rows(sql, (*cursor, limit))]


def ids(events: list[tuple[str, int, str]]) -> list[int]:
    return [event[1] for event in events]


def read_to_the_end(rvq: Calls, cursor: Cursor = START, limit: int = 3) -> tuple[list[int], Cursor]:
    found = []
    while events := page(rvq, cursor, limit):
        cursor = (events[-1][0], events[-1][1])
        found += ids(events)
    return found, cursor


def await_feed(rvq: Calls, expected: list[int], cursor: Cursor = START) -> Cursor:
    """Until the feed after the cursor is exactly this; gives the cursor behind it."""
    wait_until(lambda: read_to_the_end(rvq, cursor)[0] == expected, f"the feed is {expected}", 60)
    return read_to_the_end(rvq, cursor)[1]


def await_all(rvq: Calls) -> None:
    """Until no transaction holds the feed back."""
    sql = "SELECT coalesce(max(xid), '0') < pg_snapshot_xmin(pg_current_snapshot()) FROM rvq.events"
    wait_until(lambda: rvq.value(sql), "the feed has every event", 60)


def end_one(calls: Calls, queue: str) -> int:
    (lease,) = calls.claim(1, queues=[queue])
    calls.succeed(lease)
    return lease.id - 1


def test_every_end_is_in_the_feed_with_the_bytes_that_are_sent(rvq: Calls) -> None:
    first, second = rvq.create(), rvq.create(metadata='{"n":1.10}')
    rvq.succeed(rvq.claim_one())
    rvq.cancel(second)
    await_feed(rvq, [first, second])
    events = page(rvq)
    assert '"metadata":{"n":1.10}' in events[1][2]


def test_pages_go_on_where_the_last_ended(rvq: Calls) -> None:
    tasks = [rvq.create(queue=f"q{n}") for n in range(8)]
    for n in reversed(range(8)):
        end_one(rvq, f"q{n}")
    cursor = await_feed(rvq, tasks[::-1])
    assert page(rvq, cursor) == []


def test_many_ends_of_one_transaction_are_split_over_pages(rvq: Calls) -> None:
    tasks = [rvq.create() for _ in range(10)]
    rvq.succeed(*rvq.claim(10))
    await_feed(rvq, tasks)


def test_an_event_that_is_not_committed_holds_back_those_after_it(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    """Two connections commit out of order: without holding back, the first to begin would appear behind."""
    for queue in ("a", "b", "c"):
        rvq.create(queue=queue)
    slow, quick = in_transaction(), in_transaction()
    before = end_one(rvq, "c")
    began_first = end_one(slow, "a")
    committed_first = end_one(quick, "b")
    quick.connection.commit()
    cursor = await_feed(rvq, [before])
    slow.connection.commit()
    await_feed(rvq, [began_first, committed_first], cursor)


def test_an_end_that_rolls_back_is_never_in_the_feed(rvq: Calls, in_transaction: Callable[[], Calls]) -> None:
    rvq.create(queue="a")
    other = in_transaction()
    end_one(other, "a")
    other.connection.rollback()
    assert page(rvq) == []
    await_feed(rvq, [end_one(rvq, "a")])


def test_readers_that_stay_open_do_not_hold_the_feed_back(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    rvq.create()
    reader = in_transaction()
    reader.rows("SELECT * FROM rvq.list_tasks(NULL, 1, 1)")
    await_feed(rvq, [end_one(rvq, "default")])
    reader.connection.commit()


def test_a_writer_that_is_not_ours_does_not_hold_the_feed_back(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    rvq.create()
    stranger = in_transaction()
    assert stranger.value("SELECT pg_current_xact_id()::text")
    event = end_one(rvq, "default")
    assert ids(page(rvq)) == [event]
    stranger.connection.commit()


def test_every_run_of_a_task_is_an_event_of_its_own(rvq: Calls) -> None:
    task_id = rvq.create()
    rvq.fail_for_good(rvq.claim_one())
    rvq.retry(task_id)
    rvq.succeed(rvq.claim_one())
    await_feed(rvq, [task_id, task_id + 1])


def test_a_cursor_from_before_a_reset_stays_good(rvq: Calls) -> None:
    rvq.create()
    cursor = await_feed(rvq, [end_one(rvq, "default")])
    rvq.rows("SELECT rvq.reset()")
    rvq.create()
    await_feed(rvq, [end_one(rvq, "default")], cursor)


def test_a_reader_under_traffic_misses_nothing_and_sees_nothing_twice(
    rvq: Calls, another: Callable[[], Calls]
) -> None:
    seed = random.randrange(2**32)
    clients, reader = [another() for _ in range(8)], another()

    def work(client: Calls, number: int) -> None:
        rng = random.Random(seed + number)
        for _ in range(40):
            task_id = client.create(queue=f"q{number}")
            if rng.random() < 0.5:
                client.cancel(task_id)
            else:
                end_one(client, f"q{number}")

    with ThreadPoolExecutor(8) as executor:
        working = [executor.submit(work, client, n) for n, client in enumerate(clients)]
        found, cursor = [], START
        while not all(future.done() for future in working):
            more, cursor = read_to_the_end(reader, cursor)
            found += more
        for future in working:
            future.result()
    await_all(rvq)
    found += read_to_the_end(reader, cursor)[0]
    truth = [row[0] for row in rvq.rows("SELECT id FROM rvq.events ORDER BY xid, id")]
    assert found == truth, f"seed {seed}"
    assert len(truth) == 320
