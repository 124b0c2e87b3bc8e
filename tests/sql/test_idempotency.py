"""An Idempotency-Key makes one task, whoever asks how often and when."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from tests.sql.calls import Calls, Created
from tests.support.concurrency import background, wait_until_blocked
from tests.support.database import Database

HASH, OTHER_HASH = b"\x01" * 32, b"\x02" * 32


def test_the_same_key_and_body_give_the_same_task(rvq: Calls) -> None:
    first = rvq.post(2, key="k", body_hash=HASH)
    again = rvq.post(2, key="k", body_hash=HASH)
    assert (first.outcome, again.outcome) == ("created", "replayed")
    assert (again.task_id, again.created_at) == (first.task_id, first.created_at)
    assert len(rvq.tasks()) == 1


def test_the_same_key_with_another_body_is_a_conflict_and_stores_nothing(rvq: Calls) -> None:
    first = rvq.post(2, key="k", body_hash=HASH)
    other = rvq.post(5, key="k", body_hash=OTHER_HASH)
    assert (other.outcome, other.task_id) == ("conflict", first.task_id)
    assert rvq.task(first.task_id).total == 2
    assert len(rvq.tasks()) == 1


def test_keys_differ_by_every_byte(rvq: Calls) -> None:
    keys = ["k", "K", "k ", " k", "k" * 255, "~"]
    assert {rvq.post(key=key, body_hash=HASH).outcome for key in keys} == {"created"}
    assert len(rvq.tasks()) == len(keys)


def test_without_a_key_every_request_makes_a_task(rvq: Calls) -> None:
    assert rvq.create(body_hash=HASH) != rvq.create(body_hash=HASH)


def test_a_replay_after_the_end_still_names_the_task(rvq: Calls) -> None:
    first = rvq.post(key="k", body_hash=HASH)
    rvq.succeed(rvq.claim_one())
    assert rvq.post(key="k", body_hash=HASH)[:2] == ("replayed", first.task_id)
    assert rvq.task(first.task_id).status == "succeeded"


def test_a_key_whose_first_try_was_refused_is_free(rvq: Calls) -> None:
    with pytest.raises(psycopg2.Error):
        rvq.post(key="k", body_hash=HASH, max_attempts=2**20)
    assert rvq.post(key="k", body_hash=HASH).outcome == "created"


def test_a_key_whose_connection_died_while_it_was_used_is_free(
    rvq: Calls, in_transaction: Callable[[], Calls]
) -> None:
    dying = in_transaction()
    dying.post(key="k", body_hash=HASH)
    dying.connection.close()
    assert rvq.post(key="k", body_hash=HASH).outcome == "created"


def test_a_twin_waits_and_then_is_a_replay(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    first, twin = in_transaction(), another()
    made = first.post(key="k", body_hash=HASH)
    with background(twin.post, key="k", body_hash=HASH) as answer:
        wait_until_blocked(rvq.connection, twin.connection, first.connection)
        first.connection.commit()
        assert answer.result(10)[:2] == ("replayed", made.task_id)


def test_a_twin_of_one_that_rolled_back_makes_the_task(
    rvq: Calls, another: Callable[[], Calls], in_transaction: Callable[[], Calls]
) -> None:
    first, twin = in_transaction(), another()
    first.post(key="k", body_hash=HASH)
    with background(twin.post, key="k", body_hash=HASH) as answer:
        wait_until_blocked(rvq.connection, twin.connection, first.connection)
        first.connection.rollback()
        assert answer.result(10).outcome == "created"
    assert len(rvq.tasks()) == 1


def test_twenty_at_once_make_one_task(rvq: Calls, another: Callable[[], Calls]) -> None:
    clients = [another() for _ in range(20)]

    def post(client: Calls) -> Created:
        return client.post(3, key="k", body_hash=HASH)

    with ThreadPoolExecutor(20) as executor:
        answers = list(executor.map(post, clients))
    assert sorted(a.outcome for a in answers) == ["created"] + ["replayed"] * 19
    assert len({a.task_id for a in answers}) == 1
    assert [t.total for t in rvq.tasks()] == [3]


def test_reset_frees_every_key(rvq: Calls, database: Database) -> None:
    first = rvq.post(key="k", body_hash=HASH)
    database.rows("SELECT rvq.reset()")
    again = rvq.post(key="k", body_hash=OTHER_HASH)
    assert again.outcome == "created"
    assert again.task_id != first.task_id
