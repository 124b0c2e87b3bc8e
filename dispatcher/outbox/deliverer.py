"""The deliverer makes delivery attempts in threads of its own and hands each result to the settler."""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence

from dispatcher.delivery import Delivery, Lease, Result
from dispatcher.http.attempt import Attempt
from dispatcher.outbox.in_flight import InFlight
from dispatcher.outbox.settler import Settler
from dispatcher.schedule import decide
from dispatcher.store import Store

log = logging.getLogger(__name__)

# Posts a body under an event's id to a URL, once: Sender.send.
Send = Callable[[str, str, bytes], Attempt]


class Deliverer:
    """Owns the threads: they are started as needed, idle ones first, at most `in_flight.most_running`.

    Nothing waits here longer than a thread needs to wake: no more is put in than there may be threads.
    """

    def __init__(self, send: Send, store: Store, in_flight: InFlight, settler: Settler, lease: Lease) -> None:
        self._send = send
        self._store = store
        self._in_flight = in_flight
        self._settler = settler
        self._lease = lease
        self._waiting: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        # Threads that wait, less the deliveries that wait for them.
        self._idle = 0
        # Called after each attempt.
        self.on_end: Callable[[], None] = lambda: None

    def put(self, deliveries: Sequence[Delivery]) -> None:
        """Have each of these attempted; `in_flight` knows of them already."""
        for delivery in deliveries:
            self._engage_thread()
            self._waiting.put(delivery)

    def give_back(self) -> None:
        """Release what no thread has taken up. Raises a DatabaseError."""
        taken = []
        while True:
            try:
                taken.append(self._waiting.get_nowait())
            except queue.Empty:
                break
        with self._lock:
            self._idle += len(taken)
        self.release(taken)

    def release(self, deliveries: Sequence[Delivery]) -> None:
        """Give back deliveries that were not begun: no attempt is spent. Raises a DatabaseError."""
        if deliveries:
            self._in_flight.cancel(deliveries)
            released = self._store.release(deliveries)
            log.info("given back, not started", extra={"deliveries": released})

    def deliver(self, delivery: Delivery) -> None:
        """Make one attempt, decide what follows from it and hand that to the settler."""
        if delivery.expires_at - time.monotonic() < self._lease.attempt:
            # We slept (a suspended machine?): too little of the lease is left to try.
            self.release([delivery])
            return
        started = time.monotonic()
        try:
            attempt = self._send(delivery.event_id, delivery.url, delivery.body)
            decision = decide(attempt, delivery.tries, random.random())
        except BaseException:
            self._in_flight.cancel([delivery])
            raise
        result = Result(delivery, attempt, decision, started)
        self._in_flight.end(result)
        self._settler.put(result)
        self.on_end()

    def _engage_thread(self) -> None:
        """Count on an idle thread for the next delivery, or start one."""
        with self._lock:
            self._idle -= 1
            is_short = self._idle < 0 and self._threads < self._in_flight.most_running
            if is_short:
                self._threads += 1
                self._idle += 1
        if is_short:
            threading.Thread(target=self._run, name=f"send-{self._threads}", daemon=True).start()

    def _run(self) -> None:
        while True:
            delivery = self._waiting.get()
            try:
                self.deliver(delivery)
            except Exception:
                # Its lease runs out, and the ledger says so: nothing is lost, and the thread lives on.
                log.exception("a delivery broke off", extra={"event_id": delivery.event_id})
            with self._lock:
                self._idle += 1
