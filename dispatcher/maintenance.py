"""Periodic maintenance steps, each in its own loop.

STEPS is the table of them: a new step is one more row, and its SQL function. A call is one statement that
does one bounded batch. Every dispatcher runs every step; an advisory lock lets one at a time through each,
and the others pass. It is held for the statement alone: a session's lock would not hold behind PgBouncer,
and a leader would have to be replaced.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from app.db import Row, StatementTimeout
from app.db.partitions import DAYS_AHEAD
from dispatcher.loops import Loop, nothing
from dispatcher.metrics import Metrics
from dispatcher.statements import (
    ABANDONED,
    AUDIT,
    EXPIRE,
    FIGURES,
    FLOORS,
    FOLLOW,
    GIVE_UP,
    OVERDUE,
    RESCUE,
    RETENTION,
    SWEEP,
)
from dispatcher.store import Store

log = logging.getLogger(__name__)


class Done(NamedTuple):
    """How many rows a call did; for a step that walks a table, the key after which the next goes on.

    `after` is None when the walk begins anew. `more`: the next call follows at once, whatever `rows` is.
    """

    rows: int
    after: int | str | None = None
    more: bool = False


def count(rows: list[Row], _: Metrics) -> Done:
    """Return the number that the statement gave."""
    return Done(int(rows[0][0]))


def count_slice(rows: list[Row], _: Metrics) -> Done:
    """Return the number that the statement gave, and whether it said that there may be more."""
    number, is_full = rows[0][0]
    return Done(number, more=bool(is_full))


def count_floors(rows: list[Row], _: Metrics) -> Done:
    """Return how many floors rose, and the queue after which the next call goes on."""
    raised, last_queue = rows[0][0]
    return Done(int(raised), last_queue)


def export_stranded(rows: list[Row], metrics: Metrics) -> Done:
    """Export how many stranded tasks the sweep ended. It should never find any."""
    stranded, last_id = rows[0][0]
    if stranded:
        metrics.stranded.inc(stranded)
        log.error("tasks were stranded: a fault in the fan-in", extra={"tasks": stranded})
    return Done(stranded, last_id)


def export_abandoned(rows: list[Row], _: Metrics) -> Done:
    """Log how many abandoned tasks were failed. The walk goes on until it has seen all old ones."""
    abandoned, last_id = rows[0][0]
    if abandoned:
        log.warning("tasks that nobody worked were failed", extra={"tasks": abandoned})
    return Done(abandoned, last_id, more=last_id is not None)


def export_shortened(rows: list[Row], _: Metrics) -> Done:
    """Log how many waits were shortened: there are some only after the database's clock was set back."""
    shortened, last_id = rows[0][0]
    if shortened:
        log.warning("the database's clock was set back: waits were shortened", extra={"waits": shortened})
    return Done(shortened, last_id, more=shortened > 0)


def export_figures(rows: list[Row], metrics: Metrics) -> Done:
    """Export the figures that tell whether the database keeps up."""
    figures: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for figure, label, value in rows:
        figures[figure][label] = value
    metrics.set_by_label(metrics.oldest_due, figures["oldest_due"])
    metrics.set_by_label(metrics.dead_tuples, figures["dead_tuples"])
    metrics.set_by_label(metrics.table_bytes, figures["table_bytes"])
    metrics.set_by_label(metrics.horizon, figures["horizon"])
    metrics.oldest_transaction.set(max(figures["horizon"].values(), default=0.0))
    metrics.set_by_label(metrics.set_aside, figures["set_aside"])
    metrics.open_days.set(figures["open_days"][""])
    metrics.set_by_label(metrics.step_due, figures["due"])
    metrics.set_by_label(metrics.step_behind, figures["behind"])
    return Done(0)


def export_drift(rows: list[Row], metrics: Metrics) -> Done:
    """Export every counter that differs from the truth; repairing is an admin's decision."""
    metrics.drift.clear()
    for queue, counter, counted, truth in rows:
        metrics.drift.labels(queue, counter).set(counted - truth)
        facts = {"queue": queue, "counted": counted, "truth": truth}
        log.error("counter %s differs from the truth", counter, extra=facts)
    return Done(len(rows))


# Open work keeps the facts of its whole day. So a task is failed that is unfinished so long after retention.
ABANDONED_AFTER_DAYS = 90


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the table.

    `lock_key` names the step's advisory lock. It is never changed and never given to another step, since a
    release and the one before it run side by side. None: every dispatcher needs the step for itself.
    `every`: seconds between calls. `batch`: a call that did that much is followed by the next at once
    (0: never), unless the step walks a table, from `start` on. A call that the database stops for taking too
    long is made once more with half of the batch. `sql`: one SELECT, in which {batch}, {retention_days},
    {abandoned_days} and {after} (see Done) are filled in; with a `lock_key` it has no FROM or WHERE of its
    own. `read` takes its rows, exports what they tell, and returns what was done. `is_slow`: it may take
    minutes. `at_start`: the first call is made at once.
    """

    name: str
    lock_key: int | None
    every: float
    batch: int
    sql: str
    read: Callable[[list[Row], Metrics], Done] = count
    is_slow: bool = False
    at_start: bool = True
    start: int | str | None = None


STEPS: Final = (
    Step("promote_due", 0, 0.5, 1000, "SELECT rvq.promote_due({batch})"),
    Step("expire_leases", 1, 0.5, 500, EXPIRE, count_slice),
    Step("end_overdue_tasks", 2, 0.5, 100, OVERDUE, count_slice),
    Step("expire_delivery_leases", 3, 0.5, 500, "SELECT rvq.expire_delivery_leases({batch})"),
    Step("fold_counters", 4, 1.0, 100_000, "SELECT rvq.fold_counters({batch})"),
    Step("raise_claim_floors", 5, 0.5, 1000, FLOORS, count_floors, start=""),
    Step("rescue_below_floors", 6, 60.0, 1000, RESCUE),
    Step("check_admission", 7, 1.0, 0, "SELECT (rvq.check_admission() IS NOT NULL)::integer"),
    Step("create_partitions", 8, 3600.0, 0, f"SELECT rvq.create_partitions({DAYS_AHEAD})"),
    Step("drop_expired_partitions", 20, 600.0, 1, RETENTION, is_slow=True),
    # The safety net under fan-in walks all open tasks, a batch a call.
    Step("sweep_stranded_tasks", 21, 10.0, 1000, SWEEP, export_stranded, start=0),
    Step("end_abandoned_tasks", 22, 600.0, 1000, ABANDONED, export_abandoned, start=0),
    # Walks what waits, and goes on at once where the clock turns out to have been set back.
    Step("follow_clock", 24, 2.0, 1000, FOLLOW, export_shortened, start=0),
    Step("give_up_deliveries", 23, 600.0, 1000, GIVE_UP),
    Step("report", None, 15.0, 0, FIGURES, export_figures),
    # Reads everything, so not at each of several restarts.
    Step("audit", None, 3600.0, 0, AUDIT, export_drift, is_slow=True, at_start=False),
)


class StepRunner:
    """Runs one step again and again and records how it went; its `step` is a loop's."""

    def __init__(self, step: Step, store: Store, metrics: Metrics, retention_days: int) -> None:
        self._step = step
        self._store = store
        self._metrics = metrics
        self._days = {
            "retention_days": retention_days,
            "abandoned_days": retention_days + ABANDONED_AFTER_DAYS,
        }
        self._after = step.start
        self._batch = step.batch
        self._may_begin = step.at_start

    def step(self) -> float:
        """Do one batch and return the seconds until the next. Raises what the database raises."""
        every = self._step.every
        if not self._may_begin:
            self._may_begin = True
            return every * random.uniform(0.5, 1.0)
        try:
            goes_on = self._run()
        except Exception as error:
            self._metrics.step_failed.labels(self._step.name).inc()
            if not (isinstance(error, StatementTimeout) and self._waits_for_its_turn()):
                raise
            goes_on = False
        return 0.0 if goes_on else every * random.uniform(0.9, 1.1)

    def _waits_for_its_turn(self) -> bool:
        """After a timeout, halve the batch; return whether the step shall pause all the same.

        What has no half and takes minutes would burn them again for nothing.
        """
        if self._batch > 1:
            self._batch //= 2
        elif self._step.is_slow:
            log.error("step %s takes too long, and is given up until its next turn", self._step.name)
            return True
        return False

    def _run(self) -> bool:
        """Return whether more is left: no, and no success recorded, while another dispatcher does it."""
        step, batch, began = self._step, self._batch, time.monotonic()
        sql = step.sql.format(batch=batch, after=self._after, **self._days)
        rows = self._store.run_step(sql, step.lock_key, is_slow=step.is_slow)
        if rows is None:
            return False
        done = step.read(rows, self._metrics)
        self._after = step.start if done.after is None else done.after
        self._batch = min(batch * 2, step.batch)
        self._metrics.step_ended.labels(step.name).set_to_current_time()
        self._metrics.step_seconds.labels(step.name).set(time.monotonic() - began)
        self._metrics.step_done.labels(step.name).inc(done.rows)
        return done.more or (step.start is None and 0 < batch <= done.rows)


def maintenance_loops(
    store: Store, metrics: Metrics, retention_days: int, on_round: Callable[[], None] = nothing
) -> list[Loop]:
    """Return a loop for each step; `on_round` is called after each round of the first, twice a second."""
    runners = (StepRunner(step, store, metrics, retention_days) for step in STEPS)
    named = zip(STEPS, runners, strict=True)
    return [Loop(step.name, runner.step, on_round if step is STEPS[0] else nothing) for step, runner in named]
