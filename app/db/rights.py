"""What the API's role and the dispatcher's may do, where they are not the one that owns the schema.

Both read everything in the schema `rvq` and run its functions. What they may write is what those functions
write: facts are added and never changed. What needs the owner's rights (partitions made and dropped, a reset,
the record of the server's runs) is done by functions with SECURITY DEFINER, which only the part that calls
them may execute.

`rvq migrate --grant` grants exactly this (app/db/grants.py), and each start looks whether it is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import psycopg2

from app.db.connection import Connection
from app.db.errors import DatabaseUnfit, translate
from app.db.ledger import Cursor


@dataclass(frozen=True)
class Part:
    """`writes`: privileges by table, besides SELECT. `functions`: the SECURITY DEFINER ones it calls."""

    writes: Mapping[str, str]
    functions: Sequence[str]
    sequences: Sequence[str] = ()


PARTS: Mapping[str, Part] = {
    "api": Part(
        writes={
            "counter_deltas": "INSERT",
            "due_deliveries": "INSERT, UPDATE",
            "events": "INSERT",
            "idempotency_keys": "INSERT",
            "open_sub_tasks": "INSERT, UPDATE, DELETE",
            "open_tasks": "INSERT, UPDATE, DELETE",
            "outcomes": "INSERT",
            "queues": "INSERT, UPDATE",
            "set_aside": "INSERT, UPDATE",
            "sub_tasks": "INSERT",
            "tasks": "INSERT",
        },
        functions=["create_partitions", "open_day", "record_server", "reset"],
        sequences=["task_sequence"],
    ),
    "dispatcher": Part(
        writes={
            "admission": "UPDATE",
            "counter_deltas": "INSERT, DELETE",
            "counters": "INSERT, UPDATE",
            "delivery_attempts": "INSERT, UPDATE",
            "due_deliveries": "INSERT, UPDATE, DELETE",
            "events": "INSERT",
            "open_sub_tasks": "UPDATE, DELETE",
            "open_tasks": "UPDATE, DELETE",
            "outcomes": "INSERT",
            "queues": "INSERT, UPDATE",
            "set_aside": "INSERT, UPDATE",
            "webhook_hosts": "INSERT, UPDATE, DELETE",
            "xid_times": "INSERT, DELETE",
        },
        functions=["create_partitions", "drop_expired_partitions", "record_server"],
    ),
}
# What a role needs (`wanted`), what entries of its own it has (`held`), and whether it may, in whatever way.
RIGHTS = """
WITH wanted AS (
    SELECT 'SCHEMA' AS kind, 'rvq' AS name, 'USAGE' AS privilege WHERE %(is_needed)s
    UNION ALL
    SELECT 'TABLE', c.oid::regclass::text, 'SELECT' FROM pg_class AS c
     WHERE %(is_needed)s AND c.relnamespace = 'rvq'::regnamespace AND c.relkind IN ('r', 'p', 'v')
    UNION ALL
    SELECT 'TABLE', c.oid::regclass::text, w.privilege
      FROM unnest(%(tables)s::text[], %(privileges)s::text[]) AS w(name, privilege)
      JOIN pg_class AS c ON c.relnamespace = 'rvq'::regnamespace AND c.relname = w.name
    UNION ALL
    SELECT 'SEQUENCE', c.oid::regclass::text, 'USAGE' FROM pg_class AS c
     WHERE c.relnamespace = 'rvq'::regnamespace AND c.relkind = 'S'
       AND c.relname = ANY (%(sequences)s::text[])
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text, 'EXECUTE' FROM pg_proc AS p
     WHERE %(is_needed)s AND p.pronamespace = 'rvq'::regnamespace
       AND (NOT p.prosecdef OR p.proname = ANY (%(functions)s::text[]))
    UNION ALL
    SELECT 'DEFAULT', d.name, d.privilege
      FROM (VALUES ('TABLES', 'SELECT'), ('FUNCTIONS', 'EXECUTE')) AS d(name, privilege) WHERE %(is_needed)s),
held AS (
    SELECT DISTINCT h.kind, h.name, x.privilege_type AS privilege
      FROM (SELECT 'SCHEMA' AS kind, 'rvq' AS name, n.nspacl AS acl FROM pg_namespace AS n
             WHERE n.nspname = 'rvq'
            UNION ALL
            SELECT CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass::text, c.relacl
              FROM pg_class AS c WHERE c.relnamespace = 'rvq'::regnamespace
            UNION ALL
            SELECT 'TABLE', c.oid::regclass::text, a.attacl FROM pg_class AS c
              JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE c.relnamespace = 'rvq'::regnamespace
            UNION ALL
            SELECT 'FUNCTION', p.oid::regprocedure::text, p.proacl
              FROM pg_proc AS p WHERE p.pronamespace = 'rvq'::regnamespace
            UNION ALL
            SELECT 'DEFAULT', CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'f' THEN 'FUNCTIONS'
                                                   WHEN 'S' THEN 'SEQUENCES' ELSE 'TYPES' END, d.defaclacl
              FROM pg_default_acl AS d JOIN pg_proc AS p ON p.proowner = d.defaclrole
             WHERE d.defaclnamespace = 'rvq'::regnamespace AND p.pronamespace = 'rvq'::regnamespace
               AND p.proname = 'create_partitions') AS h
     CROSS JOIN LATERAL aclexplode(h.acl) AS x
     WHERE x.grantee = (SELECT r.oid FROM pg_roles AS r WHERE r.rolname = %(role)s))
SELECT kind, name, privilege, w.kind IS NOT NULL, h.kind IS NOT NULL, CASE kind
           WHEN 'SCHEMA' THEN has_schema_privilege(%(role)s, name, privilege)
           WHEN 'SEQUENCE' THEN has_sequence_privilege(%(role)s, name, privilege)
           WHEN 'DEFAULT' THEN h.kind IS NOT NULL
           WHEN 'FUNCTION' THEN has_function_privilege(%(role)s, name::regprocedure, privilege)
           ELSE has_table_privilege(%(role)s, name::regclass, privilege) END
  FROM wanted AS w FULL JOIN held AS h USING (kind, name, privilege)
 ORDER BY kind, privilege, name"""


class Right(NamedTuple):
    """One privilege on one object. `is_held`: by an entry of the role's own; `is_there`: in whatever way."""

    kind: str
    name: str
    privilege: str
    is_wanted: bool
    is_held: bool
    is_there: bool


def read_rights(cursor: Cursor, role: str, parts: Sequence[str]) -> list[Right]:
    """Return each privilege in the schema that a role of these parts needs, and each other that it holds."""
    chosen = [PARTS[part] for part in parts]
    writes = {
        (table, privilege)
        for part in chosen
        for table, privileges in part.writes.items()
        for privilege in privileges.split(", ")
    }
    params = {
        "role": role,
        "is_needed": bool(chosen),
        "tables": [table for table, _ in sorted(writes)],
        "privileges": [privilege for _, privilege in sorted(writes)],
        "sequences": [name for part in chosen for name in part.sequences],
        "functions": [name for part in chosen for name in part.functions],
    }
    cursor.execute(RIGHTS, params)
    return [Right(*row) for row in cursor.fetchall()]


def missing(rights: Sequence[Right]) -> list[Right]:
    return [right for right in rights if right.is_wanted and not right.is_there]


def lacking(rights: Sequence[Right]) -> list[Right]:
    """Return what is missing at this moment; default privileges are for what is made later."""
    return [right for right in missing(rights) if right.kind != "DEFAULT"]


def describe(rights: Sequence[Right]) -> str:
    """Name the first few of them."""
    shown = [f"{right.privilege} on {right.name}" for right in rights[:3]]
    more = f" and {len(rights) - 3} more" if len(rights) > 3 else ""
    return ", ".join(shown) + more


def require_rights(connection: Connection, part: str) -> None:
    """Raise DatabaseUnfit, with what to do, unless the session's role may do all that this part does."""
    role = connection.info.user
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT session_user")
            (role,) = cursor.fetchone() or (role,)
            lacks = lacking(read_rights(cursor, role, [part]))
    except psycopg2.Error as error:
        raise translate(error) from error
    if lacks:
        raise DatabaseUnfit(
            f"the role {role} may not do what the {part} does; it lacks {describe(lacks)}. "
            f"What to do: rvq migrate --grant {part}={role}, as the role that owns the schema rvq"
        )
