"""What the doctor reads in PostgreSQL's own catalogs: roles, their rights, publications, and standbys."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg2

from app.db import Connection
from app.db.errors import translate
from app.db.grants import read_roles
from app.db.ledger import Cursor
from app.db.rights import Right, read_rights

SESSION_ROLE = """
SELECT session_user::text, r.rolsuper, pg_has_role(session_user, n.nspowner, 'USAGE')
  FROM pg_roles AS r, pg_namespace AS n WHERE r.rolname = session_user AND n.nspname = 'rvq'"""
ACTS_AS_OWNER = """
SELECT pg_has_role(%s, n.nspowner, 'MEMBER') FROM pg_namespace AS n WHERE n.nspname = 'rvq'"""
# A replica identity is the whole row, or an index that is there. A root is published by its partitions.
PUBLICATIONS = """
SELECT p.pubname::text, p.pubupdate OR p.pubdelete, count(DISTINCT t.tablename),
       coalesce(array_agg(DISTINCT c.oid::regclass::text ORDER BY c.oid::regclass::text) FILTER (
           WHERE (p.pubupdate OR p.pubdelete) AND c.relkind = 'r' AND c.relreplident <> 'f'
             AND NOT EXISTS (SELECT FROM pg_index AS i WHERE i.indrelid = c.oid AND CASE c.relreplident
                                 WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)), '{}')
  FROM pg_publication AS p
  JOIN pg_publication_tables AS t ON t.pubname = p.pubname AND t.schemaname = 'rvq'
  JOIN pg_class AS r ON r.relnamespace = 'rvq'::regnamespace AND r.relname = t.tablename
 CROSS JOIN LATERAL (SELECT r.oid AS relid UNION SELECT q.relid FROM pg_partition_tree(r.oid) AS q) AS m
  JOIN pg_class AS c ON c.oid = m.relid
 GROUP BY p.pubname, p.pubupdate, p.pubdelete ORDER BY p.pubname"""

# A role that may not see what is sent to a standby counts it as one that confirms. A commit that a standby
# confirms in time is not told from one that waits in vain, so it has some seconds.
STANDBYS = """
SELECT current_setting('synchronous_standby_names'),
       (SELECT count(*) FROM pg_stat_replication AS r
         WHERE coalesce(r.sync_state, 'sync') IN ('sync', 'quorum')),
       (SELECT count(*) FROM pg_stat_activity AS a
         WHERE a.wait_event = 'SyncRep' AND a.state_change < clock_timestamp() - interval '3 seconds')"""


class Catalog:
    """Reads over one connection. Methods raise a DatabaseError when the database goes away."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def session_role(self) -> tuple[str, bool, bool]:
        """Return the name of our role, whether it is a superuser, and whether it owns the schema."""
        name, is_superuser, is_owner = self._row(SESSION_ROLE)
        return name, is_superuser, is_owner

    def granted_roles(self) -> dict[str, list[str]]:
        """Return the parts of each role that was granted one."""
        with self._cursor() as cursor:
            return read_roles(cursor)

    def rights(self, role: str, parts: Sequence[str]) -> list[Right]:
        """Return what a role of these parts needs, and what else it holds."""
        with self._cursor() as cursor:
            return read_rights(cursor, role, parts)

    def may_act_as_owner(self, role: str) -> bool:
        return bool(self._row(ACTS_AS_OWNER, (role,))[0])

    def may_read_statistics(self, role: str) -> bool:
        return bool(self._row("SELECT pg_has_role(%s, 'pg_read_all_stats', 'USAGE')", (role,))[0])

    def publications(self) -> list[tuple[str, bool, int, list[str]]]:
        """Return the publications that have tables of ours.

        Each with its name, whether it has updates or deletes, how many of our tables, and which of them lack
        a replica identity for that.
        """
        return [
            (name, has_changes, tables, lacking)
            for name, has_changes, tables, lacking in self._rows(PUBLICATIONS)
        ]

    def synchronous_standbys(self) -> tuple[str, int, int]:
        """Return those that are named, how many of them are connected, and how many commits wait in vain."""
        names, connected, waiting = self._row(STANDBYS)
        return names, connected, waiting

    def _row(self, sql: str, params: Sequence[object] = ()) -> tuple[Any, ...]:
        return self._rows(sql, params)[0]

    def _rows(self, sql: str, params: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            cursor.execute(sql, params)
            return cursor.fetchall() if cursor.description else []

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Cursor]:
        try:
            with self._connection.cursor() as cursor:
                yield cursor
        except psycopg2.Error as error:
            raise translate(error) from error
