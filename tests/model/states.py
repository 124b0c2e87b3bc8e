"""Every change of a status that the model may make: the same as in the pictures of docs/concepts.md."""

from __future__ import annotations

from typing import ClassVar

START = "[*]"
# From which state to which others.
TRANSITIONS = {
    "sub_task": {
        START: {"scheduled", "queued"},
        "scheduled": {"scheduled", "queued", "succeeded", "failed", "cancelled"},
        "queued": {"scheduled", "queued", "claimed", "succeeded", "failed", "cancelled"},
        "claimed": {"scheduled", "queued", "succeeded", "failed", "cancelled"},
        "failed": {"queued"},
        "cancelled": {"queued"},
    },
    "task": {
        START: {"queued"},
        "queued": {"running", "failed", "cancelled"},
        "running": {"queued", "succeeded", "failed", "cancelled"},
        "failed": {"queued", "running"},
    },
    "delivery": {
        START: {"pending"},
        "pending": {"pending", "delivered", "dead"},
        "delivered": {"pending"},
        "dead": {"pending"},
    },
}


class Stateful:
    """Anything with a status. A change that is not in TRANSITIONS is refused; `taken` keeps the others."""

    kind: ClassVar[str]
    taken: ClassVar[set[tuple[str, str, str]]] = set()
    status: str = START

    def __init_subclass__(cls, kind: str) -> None:
        cls.kind = kind

    def __setattr__(self, name: str, value: object) -> None:
        if name == "status":
            change = (self.kind, self.__dict__.get("status", START), str(value))
            assert change in all_transitions(), f"{change} is not in the picture"
            self.taken.add(change)
        super().__setattr__(name, value)


def all_transitions() -> set[tuple[str, str, str]]:
    """Return (kind, from, to) for each of TRANSITIONS."""
    return {
        (kind, before, after)
        for kind, table in TRANSITIONS.items()
        for before, others in table.items()
        for after in others
    }
