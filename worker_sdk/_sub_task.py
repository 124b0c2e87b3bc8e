"""What a claim returns, and what a handler sees of it."""

import json
import threading
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ._errors import Cancelled, PayloadError


@dataclass(frozen=True)
class Raw:
    """A result that is JSON already: it is stored exactly as these bytes (or this text)."""

    json: bytes | str

    def __bytes__(self) -> bytes:
        return self.json.encode() if isinstance(self.json, str) else self.json


@dataclass(frozen=True)
class Claimed:
    """One sub_task as a claim's response describes it. It is sent to handlers' processes."""

    id: str
    task_id: str
    index: int
    queue: str
    attempt: int
    max_attempts: int
    payload_bytes: bytes
    lease_token: str


@dataclass(frozen=True, eq=False)
class SubTask:
    """One attempt at one sub_task. It cannot be changed; `cancelled` may become set while you work.

    `attempt` counts from 1. `deadline` is on the clock of `time.monotonic()`: when this attempt's
    `timeout_seconds` is over (None: no limit).
    """

    id: str
    task_id: str
    index: int
    queue: str
    attempt: int
    max_attempts: int
    payload_bytes: bytes = field(repr=False)
    deadline: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False)

    @cached_property
    def payload(self) -> Any:
        """The payload, decoded when first asked for; integers of up to 4300 digits stay exact.

        Raises PayloadError, which ends the sub_task as failed.
        """
        try:
            return json.loads(self.payload_bytes.decode())
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the payload cannot be decoded: {error}") from error

    @property
    def last_attempt(self) -> bool:
        """Whether a failure now is final."""
        return self.attempt >= self.max_attempts

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled when going on is pointless; call it between steps of long work."""
        if self.cancelled.is_set():
            raise Cancelled(f"sub_task {self.id} was told to stop")

    @classmethod
    def from_claim(cls, claimed: Claimed, deadline: float | None, cancelled: threading.Event) -> "SubTask":
        known = {name: value for name, value in vars(claimed).items() if name != "lease_token"}
        return cls(**known, deadline=deadline, cancelled=cancelled)
