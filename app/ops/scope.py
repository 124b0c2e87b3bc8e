"""What the handlers for operations are given."""

from __future__ import annotations

from dataclasses import dataclass

from app.ops.store import Store


@dataclass(frozen=True, slots=True)
class Scope:
    store: Store
