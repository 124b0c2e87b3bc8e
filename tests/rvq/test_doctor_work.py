"""`rvq doctor` names the queues that stand still, the hosts that don't answer, and the webhooks given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rvq.doctor.store import Store, open_store
from rvq.doctor.work import SHOWN, of_hosts, of_queues
from tests.sql.calls import Calls
from tests.support.database import Database


@pytest.fixture
def rvq(database: Database) -> Calls:
    return Calls(database.main)


@pytest.fixture
def later(rvq: Calls, database: Database) -> Iterator[Store]:
    """The doctor, two minutes after a task was created in each of the queues `text` and `sound`."""
    rvq.create(queue="text")
    rvq.create(2, queue="sound")
    database.move_clock(120)
    with open_store(database.url) as store:
        yield store


def of_level_advice(store: Store) -> list[str]:
    return [finding.text for finding in of_queues(store) if finding.level == "advice"]


def test_queues_whose_work_nobody_takes_are_named_with_their_oldest(later: Store) -> None:
    sound, text = sorted(of_level_advice(later))
    assert sound.startswith("1 sub_tasks wait in text, the oldest for 12")
    assert text.startswith("2 sub_tasks wait in sound, the oldest for 12")
    assert "does a worker ask for this queue?" in sound


def test_a_queue_that_somebody_works_on_does_not_stand_still(later: Store, rvq: Calls) -> None:
    assert rvq.claim(1, queues=["sound"])
    (text,) = of_level_advice(later)
    assert " wait in text, " in text


def test_a_paused_queue_with_work_is_named_at_once_with_the_command_that_resumes_it(
    later: Store, rvq: Calls
) -> None:
    rvq.claim(10, queues=["text", "sound"])
    assert of_level_advice(later) == []
    rvq.create(queue="text")
    rvq.rows("SELECT rvq.set_queue_paused('text', true)")
    (text,) = of_level_advice(later)
    assert text.endswith("it is paused (rvq admin queue text --resume)")


def test_no_more_than_a_screen_of_queues_is_named(later: Store, rvq: Calls) -> None:
    for number in range(SHOWN):
        rvq.create(queue=f"q{number}")
        rvq.rows("SELECT rvq.set_queue_paused(%s, true)", (f"q{number}",))
    found = of_level_advice(later)
    assert len(found) == SHOWN + 1
    assert found[-1] == "2 more queues stand still"


def test_a_host_that_does_not_answer_is_named_until_it_does(later: Store, rvq: Calls) -> None:
    health = "SELECT rvq.record_host_health(ARRAY['hooks.example:443'], ARRAY[%s])"
    for _ in range(4):
        rvq.rows(health, (False,))
    assert list(of_hosts(later)) == []
    rvq.rows(health, (False,))
    (found,) = of_hosts(later)
    assert found.text.startswith("hooks.example:443 failed 5 times in a row")
    rvq.rows(health, (True,))
    assert list(of_hosts(later)) == []


def test_dead_webhooks_are_counted(later: Store, database: Database) -> None:
    database.rows("INSERT INTO rvq.counter_deltas (queue, deliveries_dead) VALUES ('text', 3)")
    (found,) = of_hosts(later)
    database.rows("DELETE FROM rvq.counter_deltas WHERE deliveries_dead = 3")
    assert found.text.startswith("3 are dead: ")
