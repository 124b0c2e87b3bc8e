"""Dispatchers as processes, on a real PostgreSQL, sending to a real socket."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Callable

from rvq.embedded import Cluster
from tests.dispatcher.receiver import Answer, Received, Receiver
from tests.dispatcher.rig import (
    OLD_SECRET,
    SECRET,
    Tasks,
    environment,
    event_id,
    launched,
    running,
)
from tests.support.concurrency import wait_until
from tests.support.database import Database
from tests.support.disturbance import closing_connections
from tests.support.server import VERSION


def test_a_finished_task_is_told_with_a_signature_that_the_standards_library_accepts(
    database: Database,
) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver, running(environment(database.url, receiver.host)) as dispatcher:
        ids = tasks.finish(receiver.url(), 20)
        tasks.wait_until_done()
        assert dispatcher.stop() == 0
    assert sorted(receiver.ids()) == sorted(event_id(number) for number in ids)
    for received in receiver.received:
        assert received.verify(SECRET)["type"] == "task.succeeded"
    assert tasks.ledger(ids[0]) == [(1, "delivered", "delivered")]


def test_while_secrets_rotate_receivers_with_the_old_and_with_the_new_one_both_verify(
    database: Database,
) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver:
        environ = environment(database.url, receiver.host, APP_WEBHOOK_SECRET=f"{SECRET},{OLD_SECRET}")
        with running(environ):
            tasks.finish(receiver.url())
            tasks.wait_until_done()
    (received,) = receiver.received
    assert received.verify(SECRET) == received.verify(OLD_SECRET)


def test_the_body_is_the_events_bytes(database: Database) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver, running(environment(database.url, receiver.host)):
        (number,) = tasks.finish(receiver.url())
        tasks.wait_until_done()
    body = database.value("SELECT body FROM rvq.events WHERE id = %s", (number,))
    assert receiver.received[0].body == body.encode()


def test_two_dispatchers_share_the_work_and_nothing_is_sent_twice(database: Database) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver:
        environ = environment(database.url, receiver.host)
        with running(environ) as one, running(environ) as other:
            ids = tasks.finish(receiver.url(), 500)
            tasks.wait_until_done()
            assert (one.stop(), other.stop()) == (0, 0)
    assert sorted(receiver.ids()) == sorted(event_id(number) for number in ids)


def test_sigterm_with_many_waiting_spends_no_attempts_and_what_runs_is_recorded(database: Database) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver, running(environment(database.url, receiver.host)) as dispatcher:
        receiver.hold.clear()
        ids = tasks.finish(receiver.url(), 200)
        wait_until(lambda: receiver.received, "the receiver holds a request")
        dispatcher.signal(signal.SIGTERM)
        wait_until(lambda: ": stopping" in dispatcher.log, "it stops")
        receiver.hold.set()
        assert dispatcher.wait(30) == 0
    delivered = {number for number in ids if event_id(number) in receiver.ids()}
    rows = database.rows("SELECT id, attempt, tries, lease_token FROM rvq.due_deliveries")
    assert {row[0] for row in rows} == set(ids) - delivered
    assert {row[1:] for row in rows} == {(0, 0, None)}
    assert all(tasks.ledger(number) == [(1, "delivered", "delivered")] for number in delivered)


def test_a_second_signal_ends_it_at_once(database: Database) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver, running(environment(database.url, receiver.host)) as dispatcher:
        receiver.hold.clear()
        tasks.finish(receiver.url())
        wait_until(lambda: receiver.received, "the receiver holds the request")
        dispatcher.signal(signal.SIGTERM)
        wait_until(lambda: ": stopping" in dispatcher.log, "it stops")
        dispatcher.signal(signal.SIGINT)
        assert dispatcher.wait(10) == 1


def test_kill_9_in_flight_repeats_under_the_same_id_and_leaves_unknown_in_the_ledger(
    own_cluster: Cluster,
) -> None:
    tasks = Tasks(own_cluster.url("rvq"))
    with Receiver() as receiver:
        environ = environment(own_cluster.url("rvq"), receiver.host)
        with running(environ) as dispatcher:
            receiver.hold.clear()
            (number,) = tasks.finish(receiver.url())
            wait_until(lambda: receiver.received, "the receiver holds the request")
            dispatcher.kill()
        receiver.hold.set()
        own_cluster.move_clock(60)
        with running(environ):
            tasks.wait_until_done()
    assert receiver.ids() == [event_id(number)] * 2
    assert tasks.ledger(number) == [(1, "unknown", "pending"), (2, "delivered", "delivered")]


def test_failures_are_tried_again_on_the_schedule_until_the_tenth(own_cluster: Cluster) -> None:
    tasks = Tasks(own_cluster.url("rvq"))
    with Receiver(Answer(500)) as receiver, running(environment(own_cluster.url("rvq"), receiver.host)):
        (number,) = tasks.finish(receiver.url())
        moved = 0.0
        for number_of_attempts, wait in enumerate((5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400), 1):
            wait_until(functools.partial(was_tried, tasks, number, number_of_attempts), "the next attempt")
            due_in = tasks.value("SELECT extract(epoch FROM due_at - rvq.clock()) FROM rvq.due_deliveries")
            assert wait * 0.8 - 5 < due_in <= wait * 1.2
            moved += float(due_in) + 1
            # No answer is recorded while only some of the sessions have the new time.
            receiver.hold.clear()
            own_cluster.move_clock(moved)
            receiver.hold.set()
        tasks.wait_until_done()
    ledger = tasks.ledger(number)
    assert ledger[:-1] == [(n, "http_error", "pending") for n in range(1, 10)]
    assert ledger[-1] == (10, "http_error", "dead")
    assert set(receiver.ids()) == {event_id(number)}


def restarter(cluster: Cluster) -> Callable[[], None]:
    """Starts the running server again, once it is stopped, on the port it has now."""
    assert cluster.running is not None
    return Cluster(cluster.folder, version=VERSION, port=cluster.running.port).start


def was_tried(tasks: Tasks, number: int, times: int) -> bool:
    return len(tasks.ledger(number)) == times


def test_410_is_dead_at_once_and_a_retry_after_is_waited_for(database: Database) -> None:
    tasks = Tasks(database.url)

    def answer(received: Received) -> Answer:
        return Answer(410) if received.path == "/gone" else Answer(429, {"Retry-After": "1000"})

    with Receiver(answer) as receiver, running(environment(database.url, receiver.host)):
        (gone,) = tasks.finish(receiver.url("/gone"))
        (later,) = tasks.finish(receiver.url("/later"))
        wait_until(lambda: tasks.ledger(gone) and tasks.ledger(later), "both were tried")
    assert tasks.ledger(gone) == [(1, "gone", "dead")]
    due_in = database.value("SELECT extract(epoch FROM due_at - rvq.clock()) FROM rvq.due_deliveries")
    assert 900 < due_in <= 1200


def test_a_stored_row_that_was_edited_is_refused_again_and_nobody_is_connected_to(database: Database) -> None:
    tasks = Tasks(database.url)
    with Receiver() as receiver, Receiver() as loopback:
        ids = tasks.finish(receiver.url(), 3)
        for number, url in zip(
            ids,
            (loopback.url(), f"http://u:p@{receiver.host}/", f"http://{loopback.host}\\@{receiver.host}/"),
            strict=True,
        ):
            database.rows("UPDATE rvq.due_deliveries SET url = %s WHERE id = %s", (url, number))
        with running(environment(database.url, receiver.host)):
            tasks.wait_until_done()
    assert [tasks.ledger(number) for number in ids] == [[(1, "not_allowed", "dead")]] * 3
    assert receiver.received == loopback.received == []


def test_the_database_restarted_meanwhile_heals_and_nothing_is_lost(own_cluster: Cluster) -> None:
    tasks = Tasks(own_cluster.url("rvq"))
    with Receiver() as receiver, running(environment(own_cluster.url("rvq"), receiver.host)) as dispatcher:
        receiver.hold.clear()
        before = tasks.finish(receiver.url(), 20)
        wait_until(lambda: receiver.received, "the receiver holds requests")
        restart = restarter(own_cluster)
        own_cluster.stop()
        receiver.hold.set()
        wait_until(lambda: "database:" in dispatcher.log, "it noticed")
        restart()
        tasks = Tasks(own_cluster.url("rvq"))
        after = tasks.finish(receiver.url(), 20)
        tasks.wait_until_done()
        assert dispatcher.stop() == 0
    assert sorted(receiver.ids()) == sorted(event_id(number) for number in before + after)


def test_a_black_hole_and_hosts_that_drip_do_not_delay_a_healthy_one(database: Database) -> None:
    """Sixteen hosts that never answer, twice as many as there are threads, and one that does."""
    tasks = Tasks(database.url)
    hung = [Receiver().__enter__() for _ in range(16)]
    try:
        for receiver in hung:
            receiver.hold.clear()
            tasks.finish(receiver.url(), 20)
        with Receiver() as healthy:
            hosts = [receiver.host for receiver in (*hung, healthy)]
            with running(environment(database.url, *hosts)):
                tasks.finish(healthy.url(), 100)
                wait_until(lambda: len(healthy.received) == 100, "the healthy host has everything", 10)
        assert all(len(receiver.received) <= 2 for receiver in hung)
    finally:
        for receiver in hung:
            receiver.__exit__()
        # What still hangs is no business of the audit's.
        database.rows("SELECT rvq.reset()")


def test_settings_that_can_not_work_are_listed_all_at_once_without_a_secret(database: Database) -> None:
    environ = environment(
        database.url,
        APP_WEBHOOK_SECRET="whsec_too+short",
        APP_WEBHOOK_ALLOWED_HOSTS="https://hooks.example/path",
        APP_PARTNER_TOKEN="too-short",
        APP_TYPO="1",
        DISPATCHER_THREADS="0",
    )
    with launched(environ) as dispatcher:
        assert dispatcher.wait(30) == 78
        log = dispatcher.log
    names = ("APP_WEBHOOK_SECRET", "ALLOWED_HOSTS", "APP_PARTNER_TOKEN", "APP_TYPO", "DISPATCHER_THREADS")
    assert [name for name in names if name not in log] == []
    assert [secret for secret in ("too-short", "too+short") if secret in log] == []


def test_it_does_not_start_without_a_database_url(database: Database) -> None:
    with launched(environment(database.url, APP_DATABASE_URL="")) as dispatcher:
        assert dispatcher.wait(30) == 78
        assert "APP_DATABASE_URL" in dispatcher.log


def test_it_refuses_a_database_without_the_schema(empty_database: str) -> None:
    with launched(environment(empty_database)) as dispatcher:
        assert dispatcher.wait(30) == 1
        assert "rvq migrate" in dispatcher.log


def test_it_waits_for_a_database_that_is_away_and_can_be_stopped_meanwhile(own_cluster: Cluster) -> None:
    environ = environment(own_cluster.url("rvq"))
    own_cluster.stop()
    with launched(environ) as dispatcher:
        wait_until(lambda: "waiting for the database" in dispatcher.log, "it waits", 30)
        assert ": ready" not in dispatcher.log
        assert dispatcher.stop() == 0


def test_it_waits_for_a_database_that_is_frozen(own_cluster: Cluster) -> None:
    assert own_cluster.running
    os.kill(own_cluster.running.pid, signal.SIGSTOP)
    try:
        with launched(environment(own_cluster.url("rvq"))) as dispatcher:
            wait_until(lambda: "waiting for the database" in dispatcher.log, "it waits", 30)
            os.kill(own_cluster.running.pid, signal.SIGCONT)
            dispatcher.wait_until_ready()
            assert dispatcher.stop() == 0
    finally:
        os.kill(own_cluster.running.pid, signal.SIGCONT)


def test_connections_that_end_while_it_starts_make_it_wait(own_cluster: Cluster) -> None:
    url = own_cluster.url("rvq")
    with contextlib.ExitStack() as stack:
        with closing_connections(url, "rvq-dispatcher"):
            dispatcher = stack.enter_context(launched(environment(url, DISPATCHER_DB_POOL="32")))
            wait_until(lambda: "waiting for the database" in dispatcher.log, "its start is disturbed", 60)
        dispatcher.wait_until_ready()
        assert "Traceback" not in dispatcher.log
        assert dispatcher.stop() == 0


def test_it_opens_exactly_its_own_pool_before_the_first_claim(database: Database) -> None:
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rvq-dispatcher'"
    with running(environment(database.url, DISPATCHER_DB_POOL="7")):
        assert database.value(f"{count} AND datname = current_database()") == 7
