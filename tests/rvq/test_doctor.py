"""`rvq doctor` finds each thing that is wrong, and nothing where all is well."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from app.settings import Settings, load_settings
from rvq.__main__ import main
from rvq.doctor import checks, upkeep
from rvq.doctor.examination import examine
from rvq.doctor.finding import Finding
from rvq.doctor.server import of_server
from rvq.doctor.store import Store, open_store
from tests.sql.calls import Calls
from tests.support.database import Database
from tests.support.source import ROOT

KEYS = {
    "APP_PARTNER_TOKEN": "partner-token-0123456789",
    "APP_WORKER_TOKEN": "worker-token-0123456789",
    "APP_ADMIN_TOKEN": "admin-token-0123456789",
    "APP_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "APP_WEBHOOK_ALLOWED_HOSTS": "hooks.example, http://127.0.0.1:9000",
}


@pytest.fixture
def settings(database: Database) -> Settings:
    return load_settings({**KEYS, "APP_DATABASE_URL": database.url, "APP_DB_POOL": "4", "APP_PROCESSES": "1"})


@pytest.fixture
def store(database: Database) -> Iterator[Store]:
    with open_store(database.url) as store:
        yield store


@pytest.fixture(autouse=True)
def _admission_as_new(database: Database) -> Iterator[None]:
    yield
    database.rows("DELETE FROM rvq.admission")
    database.rows("INSERT INTO rvq.admission DEFAULT VALUES")


@pytest.fixture
def looked_after(database: Database) -> None:
    """As by a dispatcher a moment ago."""
    database.rows("SELECT rvq.check_admission()")


def wrong(findings: Iterator[Finding] | list[Finding], what: str) -> list[str]:
    return [finding.text for finding in findings if finding.what == what and finding.level == "wrong"]


def test_nothing_but_the_test_servers_lack_of_durability_is_wrong(
    store: Store, settings: Settings, looked_after: None
) -> None:
    found = [finding for finding in examine(store, settings) if finding.level == "wrong"]
    assert [finding for finding in found if "must be on" not in finding.text] == []


def test_switched_off_apis_and_missing_delivery_settings_are_said() -> None:
    found = [finding.text for finding in checks.of_settings(Settings(database_url="postgresql:///x"))]
    assert sum("is switched off" in text for text in found) == 3
    (webhooks,) = [text for text in found if text.startswith("no webhooks")]
    assert "APP_WEBHOOK_SECRET: not set" in webhooks
    assert "APP_WEBHOOK_ALLOWED_HOSTS: not set" in webhooks


@pytest.mark.parametrize("missing", ["APP_WEBHOOK_SECRET", "APP_WEBHOOK_ALLOWED_HOSTS"])
def test_webhooks_that_are_promised_and_not_sent_are_wrong(missing: str, database: Database) -> None:
    both = {**KEYS, "APP_DATABASE_URL": database.url}
    neither = load_settings({name: value for name, value in both.items() if name != missing})
    with open_store(database.url) as store:
        assert list(upkeep.of_sending(store, neither)) == []
        rvq = Calls(database.main)
        rvq.create(1, webhook="https://hooks.example/rvq")
        rvq.cancel(rvq.create(1, webhook="https://hooks.example/rvq"))
        (text,) = wrong(upkeep.of_sending(store, neither), "webhooks")
        assert text.startswith("2 are promised ")
        assert f"{missing}: not set" in text
        assert list(upkeep.of_sending(store, load_settings(both))) == []


def test_what_the_fast_parser_would_gain_is_said_where_it_is_missing() -> None:
    (found,) = of_server("no_such_module")
    assert (found.level, "pip install 'rvq[fast]'" in found.text) == ("advice", True)
    (found,) = of_server("json")
    assert found.level == "ok"


def test_without_any_dispatcher_it_says_so(store: Store) -> None:
    assert wrong(checks.of_dispatcher(store), "dispatcher") == [
        "none has ever run on this database: nothing expires, nothing is sent"
    ]


def test_a_dispatcher_that_stopped_a_while_ago_is_missed(database: Database, looked_after: None) -> None:
    database.move_clock(100)
    with open_store(database.url) as later:
        (text,) = wrong(checks.of_dispatcher(later), "dispatcher")
    assert re.match(r"none has done its maintenance for 10\d s", text)


def test_a_dispatcher_that_ran_before_the_clock_was_set_back_is_missed(
    database: Database, looked_after: None
) -> None:
    database.move_clock(-3600)
    with open_store(database.url) as later:
        (text,) = wrong(checks.of_dispatcher(later), "dispatcher")
    assert text.startswith("none has done its maintenance since the database's clock was set back")


def test_a_moved_clock_is_wrong(database: Database) -> None:
    database.move_clock(100)
    with open_store(database.url) as later:
        assert wrong(checks.of_clock(later), "clock") == [
            "rvq.clock_offset moves it by 100 s: that is for tests"
        ]


def test_a_budget_of_connections_that_does_not_fit_is_wrong(store: Store, settings: Settings) -> None:
    url = settings.database_url
    assert wrong(checks.of_connections(store, settings), "connections") == []
    huge = load_settings({"APP_DATABASE_URL": url, "APP_DB_POOL": "1000", "APP_PROCESSES": "1"})
    assert len(wrong(checks.of_connections(store, huge), "connections")) == 1


@pytest.mark.parametrize("name", ["synchronous_commit"])
def test_a_setting_that_loses_commits_is_wrong(database: Database, name: str) -> None:
    connection = database.connect()
    database.rows(f"SET {name} = off", on=connection)
    assert f"{name} is off, must be on" in wrong(checks.of_configuration(Store(connection)), "postgresql")


def test_missing_partitions_are_wrong(database: Database) -> None:
    database.move_clock(400 * 86_400)
    with open_store(database.url) as later:
        assert wrong(checks.of_partitions(later), "partitions") == ["there for 0 of 8 days, today included"]


def test_a_day_that_an_open_task_keeps_is_named(database: Database, settings: Settings) -> None:
    task_id = Calls(database.main).create()
    database.move_clock(40 * 86_400)
    with open_store(database.url) as later:
        (finding,) = checks.of_retention(later, settings)
    assert finding.level == "advice"
    assert re.match(
        rf"1 days past retention are kept, since [-0-9]+: task_{task_id:016x} is open", finding.text
    )


def test_what_was_set_aside_is_named(database: Database, store: Store) -> None:
    rvq = Calls(database.main)
    task_id = rvq.create()
    rvq.rows("DELETE FROM rvq.sub_tasks")
    assert rvq.claim() == []
    assert [finding.text for finding in checks.of_damage(store)] == [
        f"1 of kind sub_task were ended: payload_lost, for example sub_{task_id + 1:016x}"
    ]
    rvq.rows("SELECT rvq.reset()")


def test_an_old_transaction_and_a_refusing_admission_are_wrong(database: Database, store: Store) -> None:
    holder = database.connect(autocommit=False)
    database.rows("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", on=holder)
    database.rows("SELECT 1 FROM rvq.queues", on=holder)
    database.rows("UPDATE rvq.admission SET max_transaction_age = '0', max_backlog = -1")
    database.rows("SELECT rvq.check_admission()")
    found = list(checks.of_vacuum(store))
    assert wrong(found, "admission")[0].startswith("create refuses: ")
    assert "rvq-test, idle in transaction" in wrong(found, "oldest transaction")[0]


def test_drift_is_wrong_and_is_named(database: Database, store: Store) -> None:
    database.rows("INSERT INTO rvq.counter_deltas (queue, queued) VALUES ('lost', 3)")
    found = list(checks.of_counters(store))
    database.rows("DELETE FROM rvq.counter_deltas WHERE queue = 'lost'")
    assert "lost.queued is 3, not 0" in wrong(found, "counters")[0]


def test_an_old_schema_is_wrong_and_nothing_else_is_asked(empty_database: str) -> None:
    with open_store(empty_database) as store:
        found = list(examine(store, load_settings({**KEYS, "APP_DATABASE_URL": empty_database})))
    assert wrong(found, "schema") == ["older than this release: run rvq migrate"]
    assert {finding.what for finding in found} == {"settings", "server", "database", "schema"}


def test_a_delivery_that_nobody_sends_is_seen(database: Database, looked_after: None) -> None:
    rvq = Calls(database.main)
    rvq.cancel(rvq.create(1, webhook="https://hooks.example/rvq"))
    database.move_clock(300)
    with open_store(database.url) as later:
        (text,) = [one.text for one in checks.of_dispatcher(later) if one.what == "deliveries"]
    assert re.match(r"one waits since 30\d s", text)


def test_what_is_advised_is_what_deploy_sets() -> None:
    conf = (ROOT / "deploy/postgresql/rvq.conf").read_text()
    values = dict(re.findall(r"^([a-z_]+)\s*=\s*(\S+)", conf, re.MULTILINE))
    assert values["max_wal_size"] == f"{checks.WAL_MB // 1024}GB"
    assert values["checkpoint_timeout"] == f"{checks.CHECKPOINT_SECONDS // 60}min"
    assert {name: values.get(name, "on") for name in checks.DURABLE} == checks.DURABLE
    assert values["idle_in_transaction_session_timeout"] != "0"


@pytest.fixture
def doctor(
    database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    for name, value in {**KEYS, "APP_DATABASE_URL": database.url}.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        status = main(["doctor", *arguments])
        captured = capsys.readouterr()
        return status, captured.out + captured.err

    return run


def test_the_command_prints_a_table_and_exits_with_one_when_something_is_wrong(
    doctor: Callable[..., tuple[int, str]],
) -> None:
    status, shown = doctor()
    assert status == 1
    assert re.search(r"^WRONG +dispatcher +none has ever run", shown, re.MULTILINE)
    assert re.search(r"^ok +schema +that of this release", shown, re.MULTILINE)


def test_the_command_prints_json_for_programs(doctor: Callable[..., tuple[int, str]]) -> None:
    status, shown = doctor("--json")
    found = json.loads(shown)
    assert status == 1
    assert {"level": "ok", "what": "schema", "text": "that of this release"} in found
    assert {one["level"] for one in found} == {"ok", "advice", "wrong"}


def test_a_new_allowlist_is_tried_on_open_tasks_and_due_deliveries(
    database: Database, doctor: Callable[..., tuple[int, str]]
) -> None:
    rvq = Calls(database.main)
    for url in ("https://old.example/a", "https://old.example/b", "https://hooks.example/x"):
        rvq.create(1, webhook=url)
    rvq.cancel(rvq.create(1, webhook="https://old.example/a"))
    assert doctor("--allowlist", "hooks.example, old.example") == (
        0,
        "nothing: all 3 addresses that something is still to be sent to are allowed\n",
    )
    status, shown = doctor("--allowlist", "hooks.example")
    assert status == 1
    assert re.search(r"^ +2 +2 +1 +https://old.example:443 is not on the list", shown, re.MULTILINE)


def test_a_wrong_new_allowlist_is_explained(doctor: Callable[..., tuple[int, str]]) -> None:
    status, shown = doctor("--allowlist", "UPPER.example")
    assert status == 1
    assert "entry 1 must be host[:port]" in shown


def test_what_the_database_sets_for_every_session_is_named(empty_database: str) -> None:
    connection = Database(empty_database)
    name = connection.main.info.dbname
    for setting in ("statement_timeout = '1s'", "session_replication_role = 'replica'"):
        connection.rows(f'ALTER DATABASE "{name}" SET {setting}')
    connection.close()
    with open_store(empty_database) as store:
        found = {finding.text: finding.level for finding in checks.of_sessions(store)}
    assert found == {
        "set by ALTER, and overridden by RVQ's own: statement_timeout": "ok",
        "session_replication_role = replica is set by ALTER DATABASE or ALTER ROLE": "advice",
    }


def test_timeouts_that_a_pooler_drops_are_named(database: Database) -> None:
    (text,) = [finding.text for finding in checks.of_sessions(Store(database.main))]
    assert text.startswith("statement_timeout, lock_timeout, idle_in_transaction_session_timeout: not what")


def test_it_writes_nothing_and_says_when_nobody_can(
    database: Database, settings: Settings, looked_after: None
) -> None:
    connection = database.connect()
    database.rows("SET default_transaction_read_only = on", on=connection)
    found = [one for one in examine(Store(connection), settings) if one.level == "wrong"]
    assert wrong(found, "database") == ["takes no writes"]


def test_a_schema_of_the_next_release_is_told_and_one_after_that_is_wrong(
    store: Store, database: Database
) -> None:
    def findings() -> list[Finding]:
        return [one for one in checks.of_database(store) if one.what == "schema"]

    release = database.value("SELECT max(release) FROM rvq.schema_functions")
    try:
        database.rows("UPDATE rvq.schema_functions SET release = %s", (release + 1,))
        (one,) = findings()
        assert (one.level, f"that of release {release + 1}" in one.text) == ("advice", True)
        database.rows("UPDATE rvq.schema_functions SET release = %s", (release + 2,))
        (one,) = findings()
        assert (one.level, f"schema of release {release + 2}" in one.text) == ("wrong", True)
    finally:
        database.rows("UPDATE rvq.schema_functions SET release = %s", (release,))
