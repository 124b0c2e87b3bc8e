"""The threads that send: started as they are needed, never more than a fixed number, idle ones first."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Iterable

from dispatcher.delivery import Delivery

log = logging.getLogger(__name__)


class DeliveryThreads:
    """Calls `deliver` for each delivery put in, each in some thread of `most`.

    Nothing waits here longer than a thread needs to wake: no more is put in than there are threads.
    """

    def __init__(self, deliver: Callable[[Delivery], None], most: int) -> None:
        self._deliver = deliver
        self._most = most
        self._waiting: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        # Threads that wait, less the deliveries that wait for them.
        self._idle = 0

    @property
    def threads(self) -> int:
        return self._threads

    def put(self, deliveries: Iterable[Delivery]) -> None:
        for delivery in deliveries:
            with self._lock:
                self._idle -= 1
                is_short = self._idle < 0 and self._threads < self._most
                if is_short:
                    self._threads += 1
                    self._idle += 1
            if is_short:
                name = f"send-{self._threads}"
                threading.Thread(target=self._run, name=name, daemon=True).start()
            self._waiting.put(delivery)

    def take_back(self) -> list[Delivery]:
        """All that no thread has taken up."""
        taken = []
        while True:
            try:
                taken.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        with self._lock:
            self._idle += len(taken)
        return taken

    def _run(self) -> None:
        while True:
            delivery = self._waiting.get()
            try:
                self._deliver(delivery)
            except Exception:
                # Its lease runs out, and the ledger says so: nothing is lost, and the thread lives on.
                log.exception("a delivery broke off", extra={"event_id": delivery.event_id})
            with self._lock:
                self._idle += 1
