"""The schema explains itself, and its generated picture is up to date."""

from __future__ import annotations

import pytest

from tests.support.database import Database
from tests.support.schema_dump import dump_schema
from tests.support.source import ROOT

# Partitions and what belongs to a table or a type are explained there.
UNEXPLAINED = """
SELECT c.oid::regclass::text
FROM pg_class AS c
WHERE c.relnamespace = 'rvq'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT c.relispartition
  AND obj_description(c.oid, 'pg_class') IS NULL
UNION ALL
SELECT p.oid::regprocedure::text
FROM pg_proc AS p
WHERE p.pronamespace = 'rvq'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL
UNION ALL
SELECT t.oid::regtype::text
FROM pg_type AS t
LEFT JOIN pg_class AS c ON c.oid = t.typrelid
WHERE t.typnamespace = 'rvq'::regnamespace AND (t.typtype IN ('e', 'd', 'r') OR c.relkind = 'c')
  AND coalesce(obj_description(t.oid, 'pg_type'), obj_description(c.oid, 'pg_class')) IS NULL
ORDER BY 1
"""


@pytest.mark.versions
def test_every_table_sequence_type_and_function_has_a_comment(database: Database) -> None:
    assert database.column(UNEXPLAINED) == []


def test_the_parameters_of_functions_begin_with_p(database: Database) -> None:
    others = """
        SELECT p.proname || '.' || a.name
        FROM pg_proc AS p,
             unnest(p.proargnames, coalesce(p.proargmodes, array_fill('i'::"char", ARRAY[p.pronargs])))
             AS a (name, mode)
        WHERE p.pronamespace = 'rvq'::regnamespace AND a.mode IN ('i', 'b') AND left(a.name, 2) <> 'p_'
        ORDER BY 1"""
    assert database.column(others) == []


def test_schema_sql_is_what_migrations_and_functions_give() -> None:
    """When this fails: `make schema`, and read the difference."""
    assert (ROOT / "sql" / "schema.sql").read_text() == dump_schema()
