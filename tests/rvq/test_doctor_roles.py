"""`rvq doctor` says which rights a role lacks, and which it has too many of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.db.migrations import migrate
from app.settings import load_settings
from rvq.doctor.examination import examine
from rvq.doctor.store import open_store
from tests.conftest import WORKER
from tests.support.roles import Roles, execute, three_roles
from tests.support.server import Server


@pytest.fixture
def roles(server: Server) -> Iterator[Roles]:
    with three_roles(server, f"{server.prefix}_{WORKER or 'main'}_doctor") as roles:
        migrate(roles.owner_url)
        yield roles


def rights(url: str, what: str = "rights") -> list[tuple[str, str]]:
    """Return level and text of what a whole examination says about rights."""
    with open_store(url) as store:
        found = list(examine(store, load_settings({"APP_DATABASE_URL": url})))
    return [(one.level, one.text) for one in found if one.what == what]


def test_it_names_the_owner_a_superuser_and_what_granted_roles_have(roles: Roles) -> None:
    assert rights(roles.owner_url) == [("ok", f"{roles.owner} owns the schema")]
    migrate(roles.owner_url, grants=roles.grants)
    granted = [
        ("ok", f"api: {roles.api} has what it needs"),
        ("ok", f"dispatcher: {roles.dispatcher} has what it needs"),
    ]
    assert rights(roles.api_url) == rights(roles.dispatcher_url) == granted
    (first, *_) = rights(roles.admin_url)
    assert (first[0], "is a superuser" in first[1]) == ("advice", True)


def test_it_names_what_a_granted_role_has_lost_and_has_too_much(roles: Roles) -> None:
    migrate(roles.owner_url, grants=roles.grants)
    execute(roles.owner_url, f'REVOKE INSERT ON rvq.tasks, rvq.sub_tasks FROM "{roles.api}"')
    execute(roles.owner_url, f'GRANT TRUNCATE ON rvq.tasks TO "{roles.dispatcher}"')
    lacks = "lacks INSERT on rvq.sub_tasks, INSERT on rvq.tasks: rvq migrate --grant"
    assert rights(roles.dispatcher_url) == [
        ("wrong", f"api: {roles.api} {lacks}"),
        ("advice", f"dispatcher: {roles.dispatcher} has more than it needs: TRUNCATE on rvq.tasks"),
    ]
    migrate(roles.owner_url, grants={})
    assert [level for level, _ in rights(roles.api_url)] == ["ok", "ok"]


def test_it_names_a_granted_role_that_may_act_as_the_owner(roles: Roles) -> None:
    migrate(roles.owner_url, grants={"api": [roles.api]})
    execute(roles.admin_url, f'GRANT "{roles.owner}" TO "{roles.api}"')
    (_, text) = rights(roles.owner_url)[-1]
    assert text == f"api: {roles.api} may act as the schema's owner, so nothing is kept from it"


def test_a_role_that_nobody_granted_anything_is_told_what_it_lacks_and_the_rest_is_examined(
    roles: Roles,
) -> None:
    execute(roles.owner_url, f'GRANT USAGE ON SCHEMA rvq TO "{roles.api}"')
    for table in ("schema_migrations", "schema_functions"):
        execute(roles.owner_url, f'GRANT SELECT ON rvq.{table} TO "{roles.api}"')
    found = rights(roles.api_url)
    assert {level for level, _ in found} == {"wrong"}
    assert any(f"rvq migrate --grant dispatcher={roles.api}" in text for _, text in found)
    assert any("permission denied for table admission" in text for _, text in found)


def test_it_says_from_whom_the_sessions_of_other_roles_are_hidden(roles: Roles) -> None:
    hidden = "what sessions of other roles do is hidden from {0}: GRANT pg_read_all_stats TO {0}"
    migrate(roles.owner_url, grants=roles.grants)
    assert ("advice", hidden.format(roles.dispatcher)) in rights(roles.owner_url, "statistics")
    execute(roles.admin_url, f'GRANT pg_read_all_stats TO "{roles.dispatcher}", "{roles.owner}"')
    assert rights(roles.owner_url, "statistics") == []
