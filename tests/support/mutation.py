"""SQL functions broken on purpose, in a database of the test's own.

A check that never found anything proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.database import Database


@dataclass(frozen=True)
class Mutation:
    """`old` becomes `new`, everywhere in one function."""

    name: str
    function: str
    old: str
    new: str

    def apply(self, database: Database) -> None:
        """Raises AssertionError when there is nothing to replace: the function has changed, so must this."""
        source = database.value(
            "SELECT pg_get_functiondef(oid) FROM pg_proc"
            " WHERE pronamespace = 'rvq'::regnamespace AND proname = %s",
            (self.function,),
        )
        assert self.old in source, f"rvq.{self.function} has no {self.old!r} any more"
        database.rows(source.replace(self.old, self.new).replace("%", "%%"))
