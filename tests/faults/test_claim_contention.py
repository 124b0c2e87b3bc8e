"""Claims over two queues in both orders, while others lock the same sub_tasks by stale tokens.

PostgreSQL's SKIP LOCKED waits after all when a row changed hands while it was looked at, and an UPDATE that
meets such a row runs what it joins again. Both were seen under load only: a deadlock, and a limit below 0.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from tests.sql.calls import Calls
from tests.support.database import Database

pytestmark = pytest.mark.slow
SECONDS = float(os.environ.get("RVQ_FAULTS_SECONDS", "8"))
CLAIMERS, OTHERS, LIMIT = 12, 6, 6
STALE = "00000000-0000-0000-0000-000000000000"
HEARTBEAT = "SELECT rvq.heartbeat_sub_tasks(60, %s, array_fill(%s::uuid, ARRAY[%s]))"


def claim_and_release(database: Database, until: float) -> Counter[str]:
    """How many sub_tasks each claim got; what went wrong, by its message."""
    calls, seen = Calls(database.connect()), Counter[str]()
    while time.monotonic() < until:
        queues = random.sample(["a", "b"], 2)
        try:
            leases = calls.claim(LIMIT, queues=queues)
            seen["too many" if len(leases) > LIMIT else "claims"] += 1
            if leases:
                calls.release(*leases)
        except psycopg2.Error as error:
            seen[str(error).partition("\n")[0]] += 1
    return seen


def lock_in_between(database: Database, ids: list[int], until: float) -> Counter[str]:
    calls, seen = Calls(database.connect()), Counter[str]()
    while time.monotonic() < until:
        some = random.sample(ids, 12)
        try:
            calls.rows(HEARTBEAT, (some, STALE, len(some)))
        except psycopg2.Error as error:
            seen[str(error).partition("\n")[0]] += 1
    return seen


def test_claims_over_queues_in_any_order_meet_no_deadlock_and_keep_their_limit(database: Database) -> None:
    calls = Calls(database.main)
    tasks = [calls.create(12, queue=queue) for queue in ("a", "b")]
    ids = [task + ordinal for task in tasks for ordinal in range(1, 13)]
    until = time.monotonic() + SECONDS
    with ThreadPoolExecutor(CLAIMERS + OTHERS) as executor:
        running = [executor.submit(claim_and_release, database, until) for _ in range(CLAIMERS)]
        running += [executor.submit(lock_in_between, database, ids, until) for _ in range(OTHERS)]
        seen = sum((future.result() for future in running), Counter[str]())
    assert set(seen) == {"claims"}
