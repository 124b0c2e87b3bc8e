"""What the worker API's handlers are given."""

from __future__ import annotations

from dataclasses import dataclass

from app.worker.store import Store


@dataclass(frozen=True, slots=True)
class Scope:
    store: Store
