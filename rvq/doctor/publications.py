"""Checks of publications: which have RVQ's tables, and whether they can take what RVQ does to them."""

from __future__ import annotations

from collections.abc import Iterator

from rvq.doctor.finding import Finding
from rvq.doctor.store import Store


def of_publications(store: Store) -> Iterator[Finding]:
    """Name each publication. It stops updates and deletes of a table without a replica identity."""
    for name, has_changes, tables, without_identity in store.publications():
        if without_identity:
            some = ", ".join(without_identity[:3])
            text = f"{name} stops updates and deletes of {some}: ALTER TABLE ... REPLICA IDENTITY FULL"
            yield Finding("wrong", "publications", text)
        elif has_changes:
            text = (
                f"{name} has {tables} of RVQ's tables with their updates and deletes, so every claim and "
                "fold is decoded: facts alone are enough (deploy/postgresql)"
            )
            yield Finding("advice", "publications", text)
        else:
            yield Finding("ok", "publications", f"{name} has {tables} of RVQ's tables, inserts only")
