"""RVQ with three roles, none of them a superuser: who owns the schema, the API's, the dispatcher's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest
from psycopg2.errors import InsufficientPrivilege

from app.db import Pool
from app.db.migrations import migrate
from app.db.partitions import create_partitions
from dispatcher.maintenance import STEPS
from rvq.__main__ import main
from tests.app.process import Gunicorn
from tests.app.rig import Caller, environ, make_caller
from tests.conftest import WORKER
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import environment, launched
from tests.dispatcher.steps import stepping
from tests.e2e.rig import running
from tests.support.concurrency import wait_until
from tests.support.roles import Roles, execute, three_roles
from tests.support.server import Server

DAYS = 86_400


@pytest.fixture
def roles(server: Server) -> Iterator[Roles]:
    with three_roles(server, f"{server.prefix}_{WORKER or 'main'}_roles") as roles:
        yield roles


@pytest.fixture
def granted(roles: Roles) -> Roles:
    migrate(roles.owner_url, grants=roles.grants)
    return roles


@contextlib.contextmanager
def api(roles: Roles) -> Iterator[Caller]:
    """The API in this process, with its role's connections."""
    pool = Pool(roles.api_url, 2, "rvq-api-test")
    pool.open()
    with contextlib.closing(pool):
        yield make_caller(roles.api_url, pool)


def move_clock(roles: Roles, days: float) -> None:
    name = roles.admin_url.rpartition("/")[2].partition("?")[0]
    execute(roles.admin_url, f"ALTER DATABASE \"{name}\" SET rvq.clock_offset = '{days * DAYS}'")


def partitions(roles: Roles) -> set[object]:
    return {row[0] for row in execute(roles.admin_url, "SELECT day FROM rvq.list_partitions()")}


def test_the_real_processes_live_from_a_post_to_a_verified_webhook_and_a_reset(
    granted: Roles, receiver: Receiver
) -> None:
    with running(granted.api_url, receiver.host) as rvq:
        rvq.start_dispatcher(APP_DATABASE_URL=granted.dispatcher_url)
        rvq.start_worker("Echo")
        task_id = rvq.create(
            [1, "€"], webhook_url=receiver.url(), completion={"policy": "at_least", "count": 2}
        )
        assert rvq.wait_ended(task_id)["status"] == "succeeded"
        wait_until(lambda: receiver.ids(), "the webhook has come", 60)
        told = receiver.received[0].verify(rvq.settings["APP_WEBHOOK_SECRET"])
        assert told["data"]["task_id"] == task_id

        def delivered() -> bool:
            items = rvq.call("GET", f"/v1/tasks/{task_id}/deliveries").expect(200)["items"]
            return [one["status"] for one in items] == ["delivered"]

        wait_until(delivered, "the delivery is recorded", 60)
        assert [event["id"] for event in rvq.pages("/v1/events")] == [told_id(receiver)]
        rvq.admin("POST", "queues/e2e", {"paused": True})
        cancelled = rvq.create([3])
        rvq.call("POST", f"/v1/tasks/{cancelled}/cancel").expect(200)
        assert rvq.admin("GET", "audit")["drift"] == 0
        assert rvq.admin("POST", "audit/repair", {})["repaired"] == 0
        assert "rvq_database_up 1.0" in rvq.call("GET", "/metrics", audience="ADMIN").body.decode()
        rvq.admin("POST", "reset", {"confirm": "reset"})
        rvq.call("GET", f"/v1/tasks/{task_id}").expect(404)
        for log in ("api.log", "dispatcher.log"):
            assert "permission denied" not in (rvq.folder / log).read_text()


def told_id(receiver: Receiver) -> str:
    return receiver.received[0].id


def test_maintenance_makes_and_drops_partitions_that_the_api_reads_at_once(granted: Roles) -> None:
    create_partitions(granted.api_url)
    with api(granted) as caller:
        caller.finish({"n": 1})
    before = partitions(granted)
    move_clock(granted, 40)
    with stepping(granted.dispatcher_url) as steps:
        for step in STEPS:
            steps.runner(step.name).step()
        assert partitions(granted) > before
        with api(granted) as caller:
            caller.create({"n": 2})
            (claimed,) = caller.claim()
            assert claimed["payload"] == {"n": 2}

        def drop_one() -> bool:
            steps.runner("drop_expired_partitions").step()
            return not before & partitions(granted)

        wait_until(drop_one, "the first days are dropped", 60)


KEPT_FROM_BOTH = [
    "DROP TABLE rvq.open_tasks",
    "TRUNCATE rvq.open_tasks",
    "ALTER TABLE rvq.tasks ADD COLUMN more text",
    "CREATE TABLE rvq.more ()",
    "UPDATE rvq.events SET body = 'forged'",
    "UPDATE rvq.sub_tasks SET payload = 'forged'",
    "DELETE FROM rvq.outcomes",
    "UPDATE rvq.schema_migrations SET release = 99",
    "DELETE FROM rvq.schema_roles",
    "DROP FUNCTION rvq.reset()",
    "SELECT rvq.drop_partition('tasks', 1)",
    "CREATE OR REPLACE FUNCTION rvq.clock() RETURNS timestamptz LANGUAGE sql AS 'SELECT now()'",
    "SET ROLE {owner}",
]
KEPT_FROM_THE_API = [
    "SELECT rvq.drop_expired_partitions(0)",
    "UPDATE rvq.admission SET max_backlog = 0",
    "UPDATE rvq.counters SET queued = 0",
    "INSERT INTO rvq.delivery_attempts DEFAULT VALUES",
    "DELETE FROM rvq.due_deliveries",
]
KEPT_FROM_THE_DISPATCHER = [
    "SELECT rvq.reset()",
    "INSERT INTO rvq.tasks DEFAULT VALUES",
    "INSERT INTO rvq.sub_tasks DEFAULT VALUES",
    "INSERT INTO rvq.open_tasks DEFAULT VALUES",
    "DELETE FROM rvq.idempotency_keys",
    "SELECT nextval('rvq.task_sequence')",
]


def test_a_role_may_not_do_what_is_not_its_parts(granted: Roles) -> None:
    create_partitions(granted.owner_url)
    day = min(int(str(one)) for one in partitions(granted))
    attempts = [
        *((granted.api_url, one) for one in KEPT_FROM_BOTH + KEPT_FROM_THE_API),
        *((granted.dispatcher_url, one) for one in KEPT_FROM_BOTH + KEPT_FROM_THE_DISPATCHER),
    ]
    for url, statement in attempts:
        with pytest.raises(InsufficientPrivilege):
            execute(url, statement.replace("'tasks', 1", f"'tasks', {day}").format(owner=granted.owner))


def test_a_writer_of_another_role_holds_the_feed_back(granted: Roles) -> None:
    """pg_stat_activity hides much of other roles' sessions, but not their xids: here a superuser cancels."""
    create_partitions(granted.owner_url)
    with api(granted) as caller, contextlib.closing(psycopg2.connect(granted.admin_url)) as admin:
        slow, quick = (int(caller.create(n)["id"].removeprefix("task_"), 16) for n in (1, 2))
        with admin.cursor() as cursor:
            cursor.execute("SELECT rvq.cancel_task(%s)", (slow,))
        execute(granted.dispatcher_url, "SELECT pg_current_xact_id()")
        caller.partner("POST", f"/v1/tasks/task_{quick:016x}/cancel").expect(200)
        assert caller.partner("GET", "/v1/events").expect(200)["items"] == []
        admin.commit()
        items = caller.partner("GET", "/v1/events").expect(200)["items"]
        assert [int(item["data"]["task_id"].removeprefix("task_"), 16) for item in items] == [slow, quick]


def test_without_grants_each_start_says_what_is_missing_and_how_to_get_it(
    roles: Roles, tmp_path: Path
) -> None:
    migrate(roles.owner_url)
    execute(roles.owner_url, f'GRANT USAGE ON SCHEMA rvq TO "{roles.api}", "{roles.dispatcher}"')
    execute(
        roles.owner_url, f'GRANT SELECT ON ALL TABLES IN SCHEMA rvq TO "{roles.api}", "{roles.dispatcher}"'
    )
    gunicorn = Gunicorn(environ(roles.api_url), tmp_path)
    assert gunicorn.wait() == 1
    with launched(environment(roles.dispatcher_url, "127.0.0.1:9")) as dispatcher:
        assert dispatcher.wait(60) == 78
        said = {"api": gunicorn.log, "dispatcher": dispatcher.log}
    for part, log in said.items():
        role = getattr(roles, part)
        assert f"the role {role} may not do what the {part} does; it lacks EXECUTE on rvq.create_" in log
        assert f"rvq migrate --grant {part}={role}, as the role that owns the schema rvq" in log
        assert "Traceback" not in log


def test_a_role_that_may_not_even_look_is_told_in_a_sentence(
    roles: Roles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    migrate(roles.owner_url)
    monkeypatch.setenv("APP_DATABASE_URL", roles.api_url)
    assert main(["migrate"]) == 1
    assert "permission denied for schema rvq (42501). What to do: " in capsys.readouterr().err
    assert main(["doctor"]) == 1
    assert "permission denied for schema rvq" in capsys.readouterr().out
