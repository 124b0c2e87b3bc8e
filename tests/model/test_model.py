"""The SQL state machine does what a plain model of it does, and a broken one is found out.

RVQ_MODEL_EXAMPLES=5000 runs longer, and each time other examples.
"""

from __future__ import annotations

import os

import psycopg2
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.drill import DrilledMachine
from tests.support.mutation import Mutation

EXAMPLES = int(os.environ.get("RVQ_MODEL_EXAMPLES", "0"))
BRIEF = settings(
    max_examples=EXAMPLES or 30,
    stateful_step_count=20,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
# What the walks come to, whatever else.
COMMON = {
    *("cancel cancelled", "cancel finished", "retry retried", "retry nothing_failed", "retry unfinished"),
    *("complete succeeded", "complete failed", "complete retrying", "complete duplicate", "complete stale"),
    *("heartbeat extended", "heartbeat stale", "heartbeat cancelled", "release released", "release stale"),
    *("expire 1", "promote 1", "end 1", "expire delivery 1", "delivered True", "dead True"),
    *("redeliver redelivered", "redeliver in_flight"),
}
# Of twelve drills each: to find what is broken on purpose, not the smallest example of it.
WALKS = 20


@pytest.mark.slow
def test_the_sql_functions_do_what_the_model_does(machine: type[DrilledMachine]) -> None:
    run_state_machine_as_test(machine, settings=BRIEF)
    sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    assert machine.database.value(sql) == 0


BROKEN = [
    Mutation("no fence", "complete_sub_tasks", "AND s.lease_token = r.lease_token", ""),
    Mutation(
        "two events",
        "advance_tasks",
        "SELECT t.event_id, rvq.feed",
        "SELECT t.event_id + generate_series(0, 1), rvq.feed",
    ),
    Mutation(
        "late reports lost", "expire_leases", "requeued = true,", "requeued = true, lease_token = NULL,"
    ),
    Mutation("release is charged", "release_sub_tasks", "attempt = s.attempt - 1", "attempt = s.attempt"),
    Mutation("one more needed", "decide_task", "p_succeeded >= p_required", "p_succeeded > p_required"),
    Mutation("siblings go on", "advance_tasks", "IF v_unfinished IS NOT NULL", "IF false"),
    Mutation("too early", "take_due", "s.due_at <= rvq.clock()", "true"),
    Mutation("leases stay", "list_expired_leases", "s.lease_expires_at <= p_now", "false"),
    Mutation("runs share an event", "retry_task", "v_event.id - p_task_id + 1", "v_event.id - p_task_id"),
    Mutation("settled by anyone", "settle_deliveries", "AND d.lease_token = a.lease_token", ""),
    Mutation("not counted", "cancel_open_sub_tasks", "WHERE c.status = 'claimed'", "WHERE false"),
]


@pytest.mark.parametrize("mutation", BROKEN, ids=[mutation.name for mutation in BROKEN])
def test_a_broken_function_is_found_out(machine: type[DrilledMachine], mutation: Mutation) -> None:
    mutation.apply(machine.database)
    with pytest.raises((AssertionError, psycopg2.Error)):
        walk(machine)


def test_the_walks_that_find_what_is_broken_find_nothing_else(machine: type[DrilledMachine]) -> None:
    walk(machine)
    assert COMMON - machine.seen == set(), "the walks no longer come to everything"


def walk(machine: type[DrilledMachine]) -> None:
    for number in range(WALKS):
        one = machine()
        one.start_again()
        for step in range(12):
            one.drill(WALKS * number + step)
        one.teardown()
