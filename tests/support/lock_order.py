"""Which locks an operation takes and in which order, seen from outside: PostgreSQL itself is asked.

The operation runs on one connection, in a transaction that is rolled back at the end. First alone: whatever
it then holds is what it takes. Then once more for each of those locks, with that lock held by a second
connection: where the operation waits for it, a third connection finds out, by trying, which locks it holds by
then. Nothing inside the operation is instrumented, and the set of locks is not given but found.

An operation that never waits for a lock while it holds a later one can't be part of a deadlock with others
that keep to the same order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import psycopg2

from app.db import Connection, Row
from tests.support.concurrency import background, wait_until
from tests.support.database import Database

# The documented order (design D2, and the header of each SQL function). Within a kind: by the key.
ORDER = (
    "door",
    "idempotency_keys",
    "partitions",
    "folder",
    "claimers",
    "repairers",
    "gate",
    "open_sub_tasks",
    "open_tasks",
    "counter_deltas",
    "counters",
    "due_deliveries",
    "webhook_hosts",
    "queues",
    "admission",
)
PLACE = "(ctid::text::point)[0]::bigint, (ctid::text::point)[1]::bigint"
# Every table whose rows are updated, deleted, or inserted where another may insert the same, and its order.
KEYS = {
    "idempotency_keys": "key",
    "open_sub_tasks": "queued_at, id",
    "open_tasks": "id",
    "counter_deltas": PLACE,
    "counters": "queue",
    "due_deliveries": "id",
    "webhook_hosts": "host",
    "queues": "queue",
    "admission": PLACE,
}
ADVISORY = {0: "door", 1: "partitions", 2: "folder", 3: "claimers", 4: "repairers"}
NAMED, GATES = 1, 2
# How long a try to insert may take before it counts as "somebody has that key". The only time in here: a
# holder never lets go while it is waited for, so a longer one finds the same.
INSERT_TIMEOUT_MS = 20

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Lock:
    """A row, a key that an insert made, or an advisory lock."""

    kind: str
    key: Key = ()

    @property
    def rank(self) -> tuple[int, Key]:
        return ORDER.index(self.kind), self.key

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.key))})"


@dataclass(frozen=True)
class Operation:
    """A statement to watch; `waits` False where it is documented never to wait for a row."""

    name: str
    sql: str
    params: Sequence[object] = ()
    waits: bool = True


@dataclass(frozen=True)
class Step:
    """One lock taken. `patient`: waited for, if need be; else it is passed over."""

    lock: Lock
    shared: bool = False
    patient: bool = True


@dataclass(frozen=True)
class Observation:
    """What an operation takes, and what it holds while it waits for each lock that it waits for."""

    operation: Operation
    taken: frozenset[Lock]
    shared: frozenset[Lock]
    held_at: dict[Lock, frozenset[Lock]]

    def violations(self) -> list[str]:
        """Every wait for a lock while holding a later one. Empty when the order is kept."""
        return [
            f"{self.operation.name} waits for {lock} while holding {other}"
            for lock, held in self.held_at.items()
            for other in sorted(held, key=lambda one: one.rank)
            if other.rank > lock.rank
        ]

    def passed_over(self) -> set[Lock]:
        """Locks it takes if they are free, and does without if not."""
        return set(self.taken) - set(self.held_at)

    def steps(self) -> list[Step]:
        """The locks in the order in which they were seen to be taken."""
        waited = sorted(self.held_at, key=lambda lock: (len(self.held_at[lock]), lock.rank))
        place = {lock: float(number) for number, lock in enumerate(waited)}
        for lock in self.passed_over():
            holding = [place[other] for other in waited if lock in self.held_at[other]]
            place[lock] = min(holding, default=len(waited)) - 0.5
        ordered = sorted(place, key=lambda lock: (place[lock], lock.rank))
        return [Step(lock, lock in self.shared, lock in self.held_at) for lock in ordered]


@dataclass
class _Found:
    """What the operation holds when it has run: locks, and the rows that it would insert."""

    locks: set[Lock] = field(default_factory=set)
    shared: set[Lock] = field(default_factory=set)
    born: dict[Lock, str] = field(default_factory=dict)


class LockObserver:
    """Watches operations on one database, in which nothing else may run."""

    def __init__(self, database: Database, clock_offset: float = 0) -> None:
        self._worker, self._blocker, self._prober = (database.connect(autocommit=False) for _ in range(3))
        self._observer = database.connect()
        self._worker_pid = self._worker.info.backend_pid
        _execute(self._worker, "SET rvq.clock_offset = %s", (str(clock_offset),))
        self._worker.commit()
        self._known = {table: _keys(self._observer, table) for table in KEYS}

    def observe(self, operation: Operation) -> Observation:
        """Raises what the operation raises."""
        found = self._run_alone(operation)
        held_at = {}
        for lock in sorted(found.locks, key=lambda one: one.rank):
            held = self._held_while_waiting(operation, lock, found.born)
            if held is not None:
                held_at[lock] = frozenset(held)
        return Observation(operation, frozenset(found.locks), frozenset(found.shared), held_at)

    def _run_alone(self, operation: Operation) -> _Found:
        found = _Found()
        try:
            self._run(operation)
            self._find_advisory(found)
            found.locks |= self._locked_rows()
            found.born = self._born_rows()
            found.locks |= set(found.born)
        finally:
            self._worker.rollback()
        return found

    def _run(self, operation: Operation) -> None:
        _execute(self._worker, operation.sql, operation.params)

    def _find_advisory(self, found: _Found) -> None:
        sql = """SELECT classid::bigint, objid::bigint, mode = 'ShareLock' FROM pg_locks
                  WHERE pid = %s AND granted AND locktype = 'advisory' AND objsubid = 2"""
        for group, number, shared in _execute(self._observer, sql, (self._worker_pid,)):
            lock = Lock("gate", (number,)) if group == GATES else Lock(ADVISORY[number])
            found.locks.add(lock)
            if shared:
                found.shared.add(lock)

    def _locked_rows(self) -> set[Lock]:
        """Rows that were there before and that nobody could lock now."""
        locked = set()
        for table, known in self._known.items():
            sql = f"SELECT {KEYS[table]} FROM rvq.{table} FOR UPDATE SKIP LOCKED"
            free = set(_execute(self._prober, sql))
            self._prober.rollback()
            locked |= {Lock(table, key) for key in known if key not in free}
        return locked

    def _born_rows(self) -> dict[Lock, str]:
        """Rows that it inserted under a key that another may insert as well, as JSON.

        Not sub_tasks that come back with their task: while the task's row is to be had, nobody holds theirs.
        Not tasks made, and deliveries of events written, in this very transaction: nobody knows them yet.
        """
        born = {}
        for table in set(KEYS) - {"counter_deltas", "open_sub_tasks", "admission"}:
            sql = f"SELECT {KEYS[table]}, to_jsonb(t)::text FROM rvq.{table} AS t"
            for *key, row in _execute(self._worker, sql):
                lock = Lock(table, tuple(key))
                if lock.key not in self._known[table] and self._is_known_to_others(lock):
                    born[lock] = row
        return born

    def _is_known_to_others(self, lock: Lock) -> bool:
        fact = {"open_tasks": "tasks", "due_deliveries": "events"}.get(lock.kind)
        return not fact or bool(_execute(self._observer, f"SELECT FROM rvq.{fact} WHERE id = %s", lock.key))

    def _held_while_waiting(
        self, operation: Operation, lock: Lock, born: dict[Lock, str]
    ) -> set[Lock] | None:
        """What it holds while it waits for this lock; None if it ends without waiting."""
        _hold(self._blocker, lock, born.get(lock))
        held: set[Lock] | None = None
        with background(self._run, operation) as future:
            try:
                if self._waits_for_the_blocker(future):
                    held = self._held(born) - {lock}
            finally:
                self._blocker.rollback()
            future.result(30)
        self._worker.rollback()
        return held

    def _waits_for_the_blocker(self, future: Future[None]) -> bool:
        """As soon as it is known: True when it waits, False when it ended."""
        blocker = self._blocker.info.backend_pid
        waiting = False

        def known() -> bool:
            nonlocal waiting
            ((blockers,),) = _execute(self._observer, "SELECT pg_blocking_pids(%s)", (self._worker_pid,))
            waiting = blocker in blockers
            return waiting or future.done()

        wait_until(known, "the operation waits or ends", 30)
        return waiting

    def _held(self, born: dict[Lock, str]) -> set[Lock]:
        found = _Found()
        self._find_advisory(found)
        taken = {lock for lock, row in born.items() if not self._could_insert(lock, row)}
        return found.locks | self._locked_rows() | taken

    def _could_insert(self, lock: Lock, row: str) -> bool:
        try:
            _execute(self._prober, f"SET LOCAL lock_timeout = {INSERT_TIMEOUT_MS}")
            _insert(self._prober, lock.kind, row)
        except psycopg2.errors.LockNotAvailable:
            return False
        finally:
            self._prober.rollback()
        return True


@contextlib.contextmanager
def held(connection: Connection, lock: Lock) -> Iterator[None]:
    """Hold a lock on a connection that is not in autocommit, for the block's time."""
    _hold(connection, lock, None)
    try:
        yield
    finally:
        connection.rollback()


def _hold(connection: Connection, lock: Lock, born: str | None) -> None:
    if born is not None:
        _insert(connection, lock.kind, born)
    elif lock.kind in KEYS:
        key = ", ".join(["%s"] * len(lock.key))
        sql = f"SELECT FROM rvq.{lock.kind} WHERE ({KEYS[lock.kind]}) = ({key}) FOR UPDATE"
        _execute(connection, sql, lock.key)
    else:
        _execute(connection, "SELECT pg_advisory_xact_lock(%s, %s)", _advisory(lock))


def _advisory(lock: Lock) -> tuple[int, int]:
    if lock.kind == "gate":
        return GATES, lock.key[0]
    return NAMED, next(number for number, name in ADVISORY.items() if name == lock.kind)


def _insert(connection: Connection, table: str, row: str) -> None:
    _execute(
        connection,
        f"INSERT INTO rvq.{table} SELECT * FROM jsonb_populate_record(NULL::rvq.{table}, %s)",
        (row,),
    )


def _keys(connection: Connection, table: str) -> set[Key]:
    return set(_execute(connection, f"SELECT {KEYS[table]} FROM rvq.{table}"))


def _execute(connection: Connection, sql: str, params: Sequence[object] = ()) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall() if cursor.description else []
