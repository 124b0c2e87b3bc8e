"""`rvq migrate --grant`: the roles of API and dispatcher get what they need, and lose what is more.

The database remembers the roles (`rvq.schema_roles`), so that each later migration does the same for what it
has made anew. All of it is in one transaction: a call meets the rights from before, or those from after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from psycopg2.sql import SQL, Composable, Identifier

from app.db.errors import DatabaseUnfit
from app.db.ledger import Cursor
from app.db.rights import Right, missing, read_rights

# The roles of each part.
Grants = Mapping[str, Sequence[str]]

# New partitions, and the readers of facts, are made by maintenance, in the name of this role.
OWNER = """
SELECT r.rolname FROM pg_roles AS r
 WHERE r.oid = (SELECT p.proowner FROM pg_proc AS p
                 WHERE p.pronamespace = 'rvq'::regnamespace AND p.proname = 'create_partitions')"""
MAY_READ_ROLES = """
SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = 'rvq' AND c.relname = 'schema_roles' AND has_table_privilege(c.oid, 'SELECT')"""
ROLES = """
SELECT s.role, s.part FROM rvq.schema_roles AS s
  JOIN pg_roles AS r ON r.rolname = s.role ORDER BY s.role, s.part"""


def check_roles(cursor: Cursor, grants: Grants) -> None:
    """Raise DatabaseUnfit, with what to do, for a role that is not there or has every right anyway."""
    for role in sorted({role for roles in grants.values() for role in roles}):
        cursor.execute("SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = %s", (role,))
        found = cursor.fetchone()
        if found is None:
            text = f"there is no role {role}. What to do: CREATE ROLE {role} LOGIN PASSWORD '...'"
            raise DatabaseUnfit(text)
        if found[0]:
            raise DatabaseUnfit(
                f"the role {role} is a superuser: no grants restrict it. Name one that is not"
            )


def apply_grants(cursor: Cursor, grants: Grants) -> list[str]:
    """Record the roles of the parts named, then grant and revoke for all; return the statements it took.

    Raise DatabaseUnfit for a role that may act as the schema's owner.
    """
    before = read_roles(cursor)
    for part, roles in grants.items():
        cursor.execute("DELETE FROM rvq.schema_roles WHERE part = %s", (part,))
        for role in dict.fromkeys(roles):
            _record(cursor, part, role)
    after = read_roles(cursor)
    done = []
    for role in sorted({*before, *after}):
        for statement in _statements(cursor, role, after.get(role, [])):
            cursor.execute(statement)
            done.append(statement.as_string(cursor))
    return done


def read_roles(cursor: Cursor) -> dict[str, list[str]]:
    """Return the parts of each role that has been granted one and still exists; none if we may not know."""
    cursor.execute(MAY_READ_ROLES)
    if not cursor.rowcount:
        return {}
    cursor.execute(ROLES)
    found = groupby(cursor.fetchall(), key=lambda row: str(row[0]))
    return {role: [part for _, part in rows] for role, rows in found}


def _record(cursor: Cursor, part: str, role: str) -> None:
    owner = _owner(cursor)
    cursor.execute("SELECT pg_has_role(%s, %s, 'MEMBER')", (role, owner))
    if cursor.fetchone() == (True,):
        raise DatabaseUnfit(f"the role {role} may act as {owner}, which owns the schema: it needs no grants")
    cursor.execute("INSERT INTO rvq.schema_roles VALUES (%s, %s)", (part, role))


def _owner(cursor: Cursor) -> str:
    cursor.execute(OWNER)
    (owner,) = cursor.fetchone() or ("",)
    return str(owner)


def _statements(cursor: Cursor, role: str, parts: Sequence[str]) -> Iterator[Composable]:
    rights = read_rights(cursor, role, parts)
    excess = [right for right in rights if right.is_held and not right.is_wanted]
    prefix = SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} IN SCHEMA rvq ").format(Identifier(_owner(cursor)))
    for verb, preposition, chosen in (("GRANT", "TO", missing(rights)), ("REVOKE", "FROM", excess)):
        for (kind, privilege), group in groupby(chosen, key=_kind_and_privilege):
            names = ", ".join(right.name for right in group)
            is_default = kind == "DEFAULT"
            what = names if is_default else f"{kind} {names}"
            statement = SQL(f"{verb} {privilege} ON {what} {preposition} ") + Identifier(role)
            yield prefix + statement if is_default else statement


def _kind_and_privilege(right: Right) -> tuple[str, str]:
    return right.kind, right.privilege
