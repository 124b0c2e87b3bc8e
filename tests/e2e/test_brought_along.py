"""The whole life of a task, with "€", under whatever ALTER DATABASE and ALTER ROLE bring along."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import psycopg2
import pytest
from psycopg2.sql import SQL, Identifier

from app.db import Pool
from app.db.migrations import migrate
from dispatcher.http.sender import make_sender
from dispatcher.maintenance import STEPS
from tests.app.rig import Caller, make_caller, settings_for, succeeded
from tests.conftest import WORKER
from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import SECRET, event_id
from tests.dispatcher.steps import Steps, stepping
from tests.support.server import Server

EURO = {"price": "5 €", "é": None}
SETTINGS = [
    "client_encoding = 'LATIN1'",
    "client_encoding = 'SQL_ASCII'",
    "default_transaction_isolation = 'serializable'",
    "default_transaction_isolation = 'repeatable read'",
    "default_transaction_deferrable = 'on'",
    "search_path = hostile, pg_catalog",
    "search_path = ''",
    "statement_timeout = '1ms'",
    "lock_timeout = '1ms'",
    "idle_in_transaction_session_timeout = '1ms'",
    "idle_session_timeout = '1ms'",
    "timezone = 'Pacific/Kiritimati'",
    "datestyle = 'German, DMY'",
    "intervalstyle = 'sql_standard'",
    "plan_cache_mode = 'force_custom_plan'",
    "synchronous_commit = 'off'",
    "bytea_output = 'escape'",
    "standard_conforming_strings = 'off'",
    "extra_float_digits = '-15'",
    "session_replication_role = 'replica'",
    "row_security = 'off'",
    "array_nulls = 'off'",
    "transform_null_equals = 'on'",
    "plpgsql.extra_errors = 'all'",
    "quote_all_identifiers = 'on'",
    "client_min_messages = 'debug5'",
    "default_tablespace = 'pg_default'",
    "role = 'none'",
]
# What stands in front of pg_catalog in a search_path must not be called: these would be, with its types.
HOSTILE = """
CREATE SCHEMA hostile;
CREATE FUNCTION hostile.cardinality(anyarray) RETURNS integer LANGUAGE sql AS 'SELECT 0';
CREATE FUNCTION hostile.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT timestamptz ''epoch''';
CREATE FUNCTION hostile.format(text, text) RETURNS text LANGUAGE sql AS 'SELECT NULL::text';
"""


@pytest.fixture(scope="module")
def own_database(server: Server) -> Iterator[str]:
    """A database of this module's own, empty of tables, to which settings can be tied."""
    name = f"{server.prefix}_{WORKER or 'main'}_brought"
    url = server.create_database(name)
    execute(url, HOSTILE)
    yield url
    server.drop_database(name)


def execute(url: str, statement: str) -> None:
    """Run it in a session of plain psycopg2, with no pins of ours."""
    connection = psycopg2.connect(url, options="-c client_encoding=UTF8 -c statement_timeout=0")
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(statement)


@contextlib.contextmanager
def altered(url: str, setting: str) -> Iterator[None]:
    name = psycopg2.extensions.parse_dsn(url)["dbname"]
    database = SQL("ALTER DATABASE {} ").format(Identifier(name))
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(database + SQL("SET " + setting))
        try:
            yield
        finally:
            cursor.execute(database + SQL("RESET ALL"))


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_task_with_a_euro_sign_lives_from_its_post_to_a_verified_webhook(
    own_database: str, setting: str
) -> None:
    with altered(own_database, setting):
        migrate(own_database)
        pool = Pool(own_database, 2, "rvq-api-test")
        pool.open()
        with contextlib.closing(pool), stepping(own_database) as steps, Receiver() as receiver:
            live(make_caller(own_database, pool, **webhooks(receiver)), steps, receiver)


def test_a_new_database_whose_own_tablespace_is_named_is_migrated(empty_database: str) -> None:
    with altered(empty_database, "default_tablespace = 'pg_default'"):
        assert migrate(empty_database).migrations


def webhooks(receiver: Receiver) -> dict[str, str | None]:
    return {
        "APP_WEBHOOK_SECRET": SECRET,
        "APP_WEBHOOK_ALLOWED_HOSTS": f"http://{receiver.host}",
        "APP_WEBHOOK_PRIVATE_HOSTS": "127.0.0.1=127.0.0.1/32",
    }


def live(api: Caller, steps: Steps, receiver: Receiver) -> None:
    maintain(steps)
    steps.pool.rows("SELECT rvq.reset()")
    new = {
        "sub_tasks": [{"payload": EURO}, {"payload": 1.1}],
        "webhook_url": receiver.url(),
        "metadata": EURO,
    }
    created = api.partner("POST", "/v1/tasks", utf8(new)).expect(201)
    again = utf8({"sub_tasks": [{"payload": "ß"}]})
    first, second = (
        api.partner("POST", "/v1/tasks", again, headers={"Idempotency-Key": f"key-{created['id']}"})
        for _ in range(2)
    )
    assert (first.status, second.status) == (201, 200)
    claimed = api.claim(10)
    assert [one["payload"] for one in claimed] == [EURO, 1.1, "ß"]
    results = [succeeded(one, {"€": one["payload"]}) for one in claimed]
    completed = api.worker("complete", utf8({"worker_id": "wörker", "results": results})).expect(200)
    assert [one["outcome"] for one in completed["results"]] == ["succeeded"] * 3
    task = api.read(created["id"])
    assert (task["status"], task["metadata"], task["counts"]["succeeded"]) == ("succeeded", EURO, 2)
    assert all(task[moment].endswith("Z") for moment in ("created_at", "finished_at"))
    assert [one["result"] for one in api.sub_tasks(created["id"])] == [{"€": EURO}, {"€": 1.1}]
    deliver(steps, receiver)
    (received,) = receiver.received
    told = received.verify(SECRET)
    assert (told["type"], told["data"]["metadata"]) == ("task.succeeded", EURO)
    feed = api.partner("GET", "/v1/events?limit=1000").expect(200)["items"]
    assert told["data"] in [event["data"] for event in feed]
    assert received.id in [event["id"] for event in feed]
    (delivery,) = api.partner("GET", f"/v1/tasks/{created['id']}/deliveries").expect(200)["items"]
    assert delivery["status"] == "delivered"
    maintain(steps)
    assert steps.pool.rows("SELECT * FROM rvq.audit() WHERE counted IS DISTINCT FROM truth") == []


def utf8(body: object) -> bytes:
    """The body with its characters as they are: escaped, they would pass any encoding."""
    return json.dumps(body, ensure_ascii=False).encode()


def deliver(steps: Steps, receiver: Receiver) -> None:
    """Send what is due with the dispatcher's own sender, and record it."""
    sender = make_sender(settings_for("postgresql:///unused", **webhooks(receiver)))
    (delivery,) = steps.claim()
    steps.end(delivery, sender.send(event_id(delivery.id), delivery.url, delivery.body))
    steps.settler.step()
    sender.close()


def maintain(steps: Steps) -> None:
    for step in STEPS:
        steps.runner(step.name).step()
