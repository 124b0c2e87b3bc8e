"""`rvq migrate --grant`: what roles get and lose, now and at later migrations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import psycopg2
import pytest
from psycopg2.errors import InsufficientPrivilege

from app.db import DatabaseUnfit, connect
from app.db.migrations import migrate
from app.db.rights import missing, read_rights, require_rights
from app.db.sql_files import SqlFile, SqlFiles
from rvq.__main__ import main
from tests.conftest import WORKER
from tests.support.roles import Roles, execute, three_roles
from tests.support.server import Server


@pytest.fixture
def roles(server: Server) -> Iterator[Roles]:
    with three_roles(server, f"{server.prefix}_{WORKER or 'main'}_grants") as roles:
        yield roles


def may(roles: Roles, role: str, part: str) -> bool:
    """Return whether the role has all that the part needs, and nothing of its own beside it."""
    with contextlib.closing(psycopg2.connect(roles.admin_url)) as connection, connection.cursor() as cursor:
        rights = read_rights(cursor, role, [part])
        return not missing(rights) and all(right.is_wanted for right in rights if right.is_held)


def has_nothing(roles: Roles, role: str) -> bool:
    with contextlib.closing(psycopg2.connect(roles.admin_url)) as connection, connection.cursor() as cursor:
        return read_rights(cursor, role, []) == []


def files_with(**functions: str) -> SqlFiles:
    """Return our files, with functions of these texts instead of, or beside, ours."""
    ours = SqlFiles.read()
    changed = {name: SqlFile(name, text) for name, text in functions.items()}
    return SqlFiles(ours.migrations, {**ours.functions, **changed}, ours.release)


def test_a_second_run_changes_nothing(roles: Roles) -> None:
    assert migrate(roles.owner_url, grants=roles.grants).grants != []
    assert migrate(roles.owner_url, grants=roles.grants).grants == []
    assert migrate(roles.owner_url, grants={}).grants == []
    assert may(roles, roles.api, "api")
    assert may(roles, roles.dispatcher, "dispatcher")


def test_what_is_too_much_is_taken_back_wherever_it_was_given(roles: Roles) -> None:
    migrate(roles.owner_url)
    for excess in (
        "ALL ON ALL TABLES IN SCHEMA rvq",
        "ALL ON ALL SEQUENCES IN SCHEMA rvq",
        "ALL ON ALL FUNCTIONS IN SCHEMA rvq",
        "ALL ON SCHEMA rvq",
        "UPDATE (payload) ON rvq.sub_tasks",
    ):
        execute(roles.owner_url, f'GRANT {excess} TO "{roles.dispatcher}"')
    default = f'ALTER DEFAULT PRIVILEGES IN SCHEMA rvq GRANT ALL ON TABLES TO "{roles.dispatcher}"'
    execute(roles.owner_url, default)
    migrate(roles.owner_url, grants=roles.grants)
    assert may(roles, roles.dispatcher, "dispatcher")


def test_a_role_that_is_no_longer_named_for_a_part_loses_it(roles: Roles) -> None:
    migrate(roles.owner_url, grants=roles.grants)
    migrate(roles.owner_url, grants={"api": [roles.dispatcher]})
    assert has_nothing(roles, roles.api)
    with contextlib.closing(connect(roles.dispatcher_url, "rvq-test")) as connection:
        require_rights(connection, "api")
        require_rights(connection, "dispatcher")
    migrate(roles.owner_url, grants={"api": [], "dispatcher": []})
    assert has_nothing(roles, roles.dispatcher)


def test_what_a_later_migration_makes_is_granted_without_asking(roles: Roles) -> None:
    """A function that is dropped and made anew, a new one of the owner's, and a new table."""
    migrate(roles.owner_url, grants=roles.grants)
    execute(roles.owner_url, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
    other = "CREATE OR REPLACE FUNCTION rvq.retry_delay(p_n text) RETURNS text LANGUAGE sql AS 'SELECT p_n'"
    new = (
        "CREATE OR REPLACE FUNCTION rvq.danger() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';"
        " REVOKE ALL ON FUNCTION rvq.danger() FROM PUBLIC"
    )
    execute(roles.owner_url, "CREATE TABLE rvq.more (id int)")
    migrate(roles.owner_url, files_with(retry_delay=other, danger=new))
    for part, url in (("api", roles.api_url), ("dispatcher", roles.dispatcher_url)):
        assert may(roles, getattr(roles, part), part)
        assert execute(url, "SELECT rvq.retry_delay('x')") == [("x",)]
        assert execute(url, "SELECT * FROM rvq.more") == []
        with pytest.raises(InsufficientPrivilege):
            execute(url, "SELECT rvq.danger()")


def test_where_functions_are_kept_from_the_public_partitions_and_readers_made_later_are_granted(
    roles: Roles,
) -> None:
    execute(roles.owner_url, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
    migrate(roles.owner_url, grants=roles.grants)
    execute(roles.dispatcher_url, "SELECT rvq.create_partitions(7)")
    assert execute(roles.api_url, "SELECT rvq.payloads_of('{1}')") == [([None],)]
    assert may(roles, roles.api, "api")
    assert may(roles, roles.dispatcher, "dispatcher")


def test_a_schema_that_was_made_beforehand_needs_no_rights_on_the_database(
    roles: Roles, server: Server
) -> None:
    """The owner of the schema may create nothing else in the database."""
    name = roles.admin_url.rpartition("/")[2].partition("?")[0]
    execute(roles.admin_url, f'ALTER DATABASE "{name}" OWNER TO CURRENT_USER')
    with pytest.raises(DatabaseUnfit, match=r"permission denied .* CREATE SCHEMA rvq AUTHORIZATION ROLE"):
        migrate(roles.owner_url)
    execute(roles.admin_url, f'CREATE SCHEMA rvq AUTHORIZATION "{roles.owner}"')
    migrate(roles.owner_url, grants=roles.grants)
    assert may(roles, roles.api, "api")


def test_a_schema_that_another_role_owns_will_do_where_the_role_may_create_in_it(roles: Roles) -> None:
    execute(roles.admin_url, "CREATE SCHEMA rvq")
    execute(roles.admin_url, f'GRANT ALL ON SCHEMA rvq TO "{roles.owner}"')
    assert migrate(roles.owner_url).functions
    assert migrate(roles.owner_url).functions == []


def test_who_needs_no_grants_or_is_not_there_is_refused_before_anything_is_changed(roles: Roles) -> None:
    superuser = str(execute(roles.admin_url, "SELECT current_user")[0][0])
    refused: Sequence[tuple[str, str]] = (
        ("nobody_of_this_name", "there is no role nobody_of_this_name. What to do: CREATE ROLE"),
        (superuser, "is a superuser"),
    )
    for role, reason in refused:
        with pytest.raises(DatabaseUnfit, match=reason):
            migrate(roles.owner_url, grants={"api": [role]})
    assert execute(roles.admin_url, "SELECT FROM pg_namespace WHERE nspname = 'rvq'") == []
    with pytest.raises(DatabaseUnfit, match=r"may act as .*, which owns the schema: it needs no grants"):
        migrate(roles.owner_url, grants={"api": [roles.owner]})


def test_only_the_owner_can_migrate_and_grant(roles: Roles) -> None:
    migrate(roles.owner_url, grants=roles.grants)
    changed = files_with(
        retry_delay="CREATE FUNCTION rvq.retry_delay() RETURNS int LANGUAGE sql AS 'SELECT 1'"
    )
    refused = "run rvq migrate as the role that owns the schema"
    with pytest.raises(DatabaseUnfit, match=refused):
        migrate(roles.api_url, changed)
    with pytest.raises(DatabaseUnfit, match=refused):
        migrate(roles.api_url, grants={"dispatcher": [roles.api]})
    assert migrate(roles.api_url).functions == []


def test_the_command_shows_what_it_granted(
    roles: Roles, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APP_DATABASE_URL", roles.owner_url)
    assert main(["migrate", "--grant", f"api={roles.api}", "--grant", f"dispatcher={roles.dispatcher}"]) == 0
    shown = capsys.readouterr().out
    assert f'GRANT USAGE ON SEQUENCE rvq.task_sequence TO "{roles.api}"' in shown
    assert main(["migrate", "--grant", "dispatcher="]) == 0
    assert f'REVOKE USAGE ON SCHEMA rvq FROM "{roles.dispatcher}"' in capsys.readouterr().out
    for wrong in ("worker=x", "api"):
        with pytest.raises(SystemExit):
            main(["migrate", "--grant", wrong])
        assert "must be api=ROLE or dispatcher=ROLE" in capsys.readouterr().err
