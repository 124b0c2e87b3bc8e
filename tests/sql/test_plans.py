"""The statements inside each hot function keep to their indexes, whatever the statistics say.

A queue that keeps emptying makes statistics lie, so every call runs five times: without any statistics, with
those taken while the tables were empty, with true ones, with those of a full queue once nearly all is gone,
and on a small queue, as a session plans that was opened before the load came (and keeps its plans).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.sql.calls import URL, Calls
from tests.sql.plans import Plans
from tests.support.database import Database

pytestmark = [pytest.mark.slow, pytest.mark.versions]
BACKLOG = 50_000
OPEN = {"open_tasks", "open_sub_tasks", "due_deliveries", "idempotency_keys"}
FACTS = {"tasks", "sub_tasks", "outcomes", "events", "delivery_attempts"}

# Half of the tasks are open, half have ended; one open sub_task in five is scheduled, claimed, queued again.
FILL = """
INSERT INTO rvq.tasks (id, created_at, total, policy, queue, webhook_url, webhook_host)
SELECT rvq.new_task_id(rvq.clock(), false, (SELECT rvq.open_day(rvq.clock()))), rvq.clock(), 1,
       'all', 'default', 'https://h/', 'h'
  FROM generate_series(1, 2 * {n});
INSERT INTO rvq.sub_tasks SELECT id + 1, created_at, 5, '1' FROM rvq.tasks;
INSERT INTO rvq.open_tasks
       (id, created_at, deadline_at, total, unfinished, policy, queue, webhook_url, webhook_host)
SELECT id, created_at, created_at + interval '1 day', 1, 1, policy, queue, webhook_url, webhook_host
  FROM rvq.tasks ORDER BY id DESC LIMIT {n};
INSERT INTO rvq.open_sub_tasks
       (id, queued_at, due_at, lease_expires_at, lease_token, status, max_attempts, requeued, queue)
SELECT id + 1, created_at, CASE WHEN n % 5 = 0 THEN created_at + interval '1 day' END,
       CASE WHEN n % 5 = 1 THEN created_at + interval '1 day' END,
       CASE WHEN n % 5 = 1 THEN gen_random_uuid() END,
       (CASE n % 5 WHEN 0 THEN 'scheduled' WHEN 1 THEN 'claimed' ELSE 'queued' END)::rvq.sub_task_status,
       5, n % 5 = 2, 'default'
  FROM (SELECT *, row_number() OVER (ORDER BY id) AS n FROM rvq.open_tasks) AS t;
INSERT INTO rvq.events
SELECT t.id, pg_current_xact_id(), t.created_at, 1, 0, 0, 'succeeded', t.queue, 'x'
  FROM rvq.tasks AS t WHERE NOT EXISTS (SELECT FROM rvq.open_tasks AS o WHERE o.id = t.id);
INSERT INTO rvq.outcomes (id, ended_at, attempt, status)
SELECT id + 1, occurred_at, 1, 'succeeded' FROM rvq.events;
INSERT INTO rvq.delivery_attempts (id, started_at, ended_at, attempt, status, queue, outcome)
SELECT id, occurred_at, occurred_at, 1, 'pending', queue, 'timeout' FROM rvq.events;
INSERT INTO rvq.due_deliveries (id, due_at, lease_expires_at, lease_token, queue, host, url)
SELECT id, occurred_at, CASE WHEN id % 2097152 = 0 THEN occurred_at + interval '1 day' END,
       CASE WHEN id % 2097152 = 0 THEN gen_random_uuid() END, 'default', 'h' || (id >> 20) % 50, 'https://h/'
  FROM rvq.events;
INSERT INTO rvq.idempotency_keys SELECT 'key' || id, 'x', id FROM rvq.tasks;
SELECT rvq.repair_counters();
"""

EMPTIED = """
DELETE FROM rvq.open_sub_tasks AS s USING rvq.open_tasks AS t
 WHERE s.id = t.id + 1 AND t.id > (SELECT id FROM rvq.open_tasks ORDER BY id OFFSET 200 LIMIT 1);
DELETE FROM rvq.open_tasks WHERE id > (SELECT id FROM rvq.open_tasks ORDER BY id OFFSET 200 LIMIT 1);
DELETE FROM rvq.due_deliveries WHERE id > (SELECT id FROM rvq.due_deliveries ORDER BY id OFFSET 200 LIMIT 1);
"""


NONE, EMPTY, TRUE, NEARLY_EMPTIED = "no statistics", "of empty tables", "true statistics", "nearly emptied"
SMALL = "small queue"


@pytest.fixture(scope="module", params=[NONE, EMPTY, TRUE, NEARLY_EMPTIED, SMALL])
def filled(request: pytest.FixtureRequest, database_url: str) -> Iterator[Database]:
    """A full queue with a full history; autovacuum must not correct the statistics meanwhile."""
    database = Database(database_url)
    database.clean()
    tables = database.column(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'rvq'::regnamespace AND relkind = 'r'"
    )
    for table in tables:
        database.rows(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    if request.param in (NONE, SMALL):
        database.rows("TRUNCATE rvq.open_tasks, rvq.open_sub_tasks, rvq.due_deliveries")
        database.rows("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE %s", ("rvq.%",))
    else:
        database.rows("ANALYZE")
    for statement in FILL.format(n=300 if request.param == SMALL else BACKLOG).split(";\n"):
        if statement.strip():
            database.rows(statement.replace("%", "%%"))
    if request.param in (TRUE, NEARLY_EMPTIED):
        database.rows("ANALYZE")
    if request.param == NEARLY_EMPTIED:
        for statement in EMPTIED.split(";\n"):
            if statement.strip():
                database.rows(statement)
        database.rows("SELECT rvq.repair_counters()")
    yield database
    for table in tables:
        database.rows(f"ALTER TABLE {table} RESET (autovacuum_enabled)")
    database.clean()
    database.rows("ANALYZE")
    database.close()


@pytest.fixture
def plans(filled: Database) -> Plans:
    return Plans(filled.connect())


@pytest.fixture
def scene(filled: Database) -> Calls:
    """To arrange things with, unseen."""
    return Calls(filled.connect())


def open_task(calls: Calls) -> int:
    return int(calls.value("SELECT id FROM rvq.open_tasks ORDER BY id DESC LIMIT 1"))


def ended_task(calls: Calls) -> int:
    return int(calls.value("SELECT id FROM rvq.events ORDER BY id DESC LIMIT 1"))


def expire(calls: Calls, scene: Calls) -> None:
    scene.rows(
        "UPDATE rvq.open_sub_tasks SET lease_expires_at = '2020-01-01' WHERE id IN"
        " (SELECT id FROM rvq.open_sub_tasks WHERE status = 'claimed' LIMIT 20)"
    )
    calls.expire(10)


def overdue(calls: Calls, scene: Calls) -> None:
    scene.rows("UPDATE rvq.open_tasks SET deadline_at = '2020-01-01' WHERE id = %s", (open_task(scene),))
    calls.end_overdue(10)


def promote(calls: Calls, scene: Calls) -> None:
    scene.rows(
        "UPDATE rvq.open_sub_tasks SET due_at = '2020-01-01' WHERE id IN"
        " (SELECT id FROM rvq.open_sub_tasks WHERE status = 'scheduled' LIMIT 20)"
    )
    calls.promote(10)


def retry(calls: Calls, scene: Calls) -> None:
    task_id = calls.create(3, queue="retried")
    calls.fail_for_good(*calls.claim(3, queues=["retried"]))
    calls.retry(task_id)


def end_by_policy(calls: Calls, scene: Calls) -> None:
    calls.create(5, queue="policy", policy="fail_fast", webhook=URL)
    calls.fail_for_good(*calls.claim(2, queues=["policy"]))


def send(calls: Calls, scene: Calls) -> None:
    one, two, three = calls.claim_deliveries(3)
    calls.settle(one)
    calls.put_off(two)
    calls.release_deliveries(three)


HOT: dict[str, Callable[[Calls, Calls], object]] = {
    "create": lambda c, _: c.create(3, key="new", body_hash=b"x", webhook=URL),
    "replay": lambda c, _: c.post(3, key="new", body_hash=b"x"),
    "claim": lambda c, _: c.claim(10),
    "claim of nothing": lambda c, _: c.claim(10, queues=["empty"]),
    "heartbeat": lambda c, _: c.heartbeat(*c.claim(10)),
    "release": lambda c, _: c.release(*c.claim(10)),
    "complete with success": lambda c, _: c.succeed(*c.claim(10)),
    "complete with retry": lambda c, _: c.fail(*c.claim(10)),
    "complete again": lambda c, _: [c.succeed(*leases) for leases in [c.claim(3)] * 2],
    "end by policy": end_by_policy,
    "promote": promote,
    "expire": expire,
    "deadline": overdue,
    "cancel": lambda c, s: c.cancel(open_task(s)),
    "admin retry": retry,
    "sweep": lambda c, _: c.sweep(0, 100),
    "send": send,
    "expire deliveries": lambda c, _: c.expire_deliveries(10),
    "redeliver": lambda c, s: c.redeliver(ended_task(s)),
    "read a task": lambda c, s: (c.task(open_task(s)), c.task(ended_task(s))),
    "list sub_tasks": lambda c, s: (c.sub_tasks(open_task(s)), c.sub_tasks(ended_task(s))),
    "list tasks": lambda c, _: [c.tasks(status, 10) for status in (None, "queued", "succeeded", "failed")],
    "list deliveries of a task": lambda c, s: c.rows(
        "SELECT * FROM rvq.list_deliveries_of_task(%s)", (ended_task(s),)
    ),
    "list deliveries": lambda c, _: [
        c.rows("SELECT * FROM rvq.list_deliveries(%s, NULL, NULL, 10, %s)", (status, 2**62))
        for status in ("pending", "delivered", "dead")
    ],
    "events": lambda c, _: c.rows("SELECT * FROM rvq.list_events('0', 0, 10)"),
    "stats": lambda c, _: c.stats(),
    "raise floors": lambda c, _: (c.fold(), c.raise_floors()),
    "rescue": lambda c, _: c.rows("SELECT rvq.rescue_below_floors(10)"),
    "follow the clock": lambda c, _: c.rows("SELECT * FROM rvq.follow_clock(0, 10)"),
}


@pytest.mark.parametrize("name", HOT)
def test_no_growing_table_is_read_from_end_to_end(plans: Plans, scene: Calls, name: str) -> None:
    growing = growing_tables(scene)
    HOT[name](plans.calls, scene)
    made = plans.take()
    assert made, "the planner told nothing"
    read = [plan.read_from_end_to_end() & growing for plan in made]
    assert [tables for tables in read if tables] == []
    assert [plan.tables for plan in made if plan.hashes_a_whole_subselect()] == []


def growing_tables(scene: Calls) -> set[str]:
    """Of the facts, the partitions that have rows: those of days to come are empty, and read in no time."""
    day = scene.value("SELECT rvq.day_at(rvq.clock())")
    return OPEN | {f"{table}_{day}" for table in FACTS}


@pytest.mark.parametrize("name", ["claim", "claim of nothing", "promote"])
def test_nothing_is_sorted_ahead_of_skip_locked(plans: Plans, scene: Calls, name: str) -> None:
    HOT[name](plans.calls, scene)
    locking = [plan for plan in plans.take() if plan.skips_locked()]
    assert locking, "no statement with SKIP LOCKED was seen"
    assert [plan.tables for plan in locking if plan.sorts_under_skip_locked()] == []


@pytest.mark.parametrize(
    ("name", "order"), [("send", "due_deliveries_due"), ("expire deliveries", "due_deliveries_lease")]
)
def test_deliveries_are_picked_in_an_indexs_order_and_then_locked_by_id(
    plans: Plans, scene: Calls, name: str, order: str
) -> None:
    """What is sorted are ids that were named, at most as many as one batch."""
    HOT[name](plans.calls, scene)
    made = plans.take()
    picking = [plan for plan in made if plan.indexes == {order}]
    assert picking, "no statement that picks was seen"
    assert [plan.tables for plan in picking if plan.sorts()] == []
    locking = [plan for plan in made if plan.skips_locked()]
    assert [plan.indexes for plan in locking] == [{"due_deliveries_pkey"}]


def test_a_claim_reads_the_indexes_that_are_its_order(plans: Plans) -> None:
    plans.calls.claim(10)
    plans.calls.claim(10, queues=["empty"])  # where nothing new is queued, the requeued ones are looked at
    used = set().union(*(plan.indexes for plan in plans.take()))
    assert {"open_sub_tasks_queued", "open_sub_tasks_requeued", "open_sub_tasks_pkey"} <= used


BY_ID: dict[str, Callable[[Calls, Calls], object]] = {
    "heartbeat": lambda c, s: c.heartbeat(*s.claim(20)),
    "release": lambda c, s: c.release(*s.claim(20)),
    "complete with success": lambda c, s: c.succeed(*s.claim(20)),
    "complete with retry": lambda c, s: c.fail(*s.claim(20)),
    "settle": lambda c, s: c.settle(*s.claim_deliveries(20)),
    "put off": lambda c, s: c.put_off(*s.claim_deliveries(20)),
    "release deliveries": lambda c, s: c.release_deliveries(*s.claim_deliveries(20)),
    "redeliver": lambda c, s: c.redeliver(ended_task(s)),
}


@pytest.mark.parametrize("name", BY_ID)
def test_what_is_named_is_found_by_its_id(plans: Plans, scene: Calls, name: str) -> None:
    """And not by going through all that is claimed, or due, for each that is named."""
    BY_ID[name](plans.calls, scene)
    by_state = {"open_sub_tasks_lease", "open_sub_tasks_queued", "open_sub_tasks_requeued"}
    by_state |= {
        "open_sub_tasks_due",
        "open_sub_tasks_attempted",
        "due_deliveries_due",
        "due_deliveries_lease",
    }
    used = [plan.indexes & by_state for plan in plans.take()]
    assert [indexes for indexes in used if indexes] == []


def test_expiry_looks_through_the_leases_once(plans: Plans, scene: Calls) -> None:
    expire(plans.calls, scene)
    assert sum("open_sub_tasks_lease" in plan.indexes for plan in plans.take()) == 1


def test_the_guard_sees_a_sequential_scan_and_a_sort(plans: Plans, scene: Calls) -> None:
    plans.calls.rows("SELECT count(payload) FROM rvq.sub_tasks")
    (plan,) = plans.take()
    assert plan.read_from_end_to_end() & growing_tables(scene) != set()
    plans.calls.rows("SELECT id FROM rvq.open_sub_tasks ORDER BY worker_id LIMIT 1 FOR UPDATE SKIP LOCKED")
    (plan,) = plans.take()
    assert plan.sorts_under_skip_locked()
