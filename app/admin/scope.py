"""What the admin API's handlers are given."""

from __future__ import annotations

from dataclasses import dataclass

from app.admin.store import Store


@dataclass(frozen=True, slots=True)
class Scope:
    store: Store
