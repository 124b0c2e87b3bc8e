"""What the partner API's handlers are given."""

from __future__ import annotations

from dataclasses import dataclass

from app.partner.store import Store
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Scope:
    store: Store
    settings: Settings
