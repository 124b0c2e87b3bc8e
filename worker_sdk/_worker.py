"""One worker: its threads are put together, started, and stopped in the right order."""

import os
import re
import secrets
import socket
import time

from ._claimer import Claimer
from ._client import Client
from ._completer import Completer
from ._heartbeat import Heartbeat, Watch
from ._leases import Leases, Reason
from ._logs import logger
from ._loop import Loop
from ._options import HandlerLike, Options
from ._prefetch import Prefetch
from ._process.signals import StopRequest
from ._settings import Settings, load_settings
from ._slots import Slots
from ._transport import CONNECT_SECONDS, HTTPTransport, Transport

JOIN_SECONDS = 10.0  # for a request under way to end
OBEY_SECONDS = 1.0  # for handlers to notice that the grace is over
EMPTY_SECONDS = 2.0  # how long claims must come back empty before `until_empty` ends the worker


def new_worker_id() -> str:
    """Return `host-pid-random`: never the same twice, so a restarted worker does not keep old work alive."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{secrets.token_hex(4)}"


class Worker:
    """A worker runs a Handler. `Handler.run()` is the usual way; this is for programs that embed one.

    `start` and `stop` may be called from any thread, once each; `run` does both around a wait for a
    signal. With `until_empty` it stops by itself when the queue is empty and nothing is in hand.
    """

    def __init__(
        self,
        handler: type[HandlerLike],
        options: Options | None = None,
        *,
        settings: Settings | None = None,
        transport: Transport | None = None,
        until_empty: bool = False,
    ) -> None:
        self.options = options or Options.of(handler)
        self.id = new_worker_id()
        self.stop_request = StopRequest()
        self.fatal: str | None = None
        self.empty_seconds = EMPTY_SECONDS
        """How long claims must come back empty before `until_empty` stops the worker."""
        self._handler = handler
        self._transport = transport or self._http(settings or load_settings())
        self._client = Client(self._transport, self.id)
        self._leases = Leases(self.options.timeout_seconds)
        self._build(until_empty)

    def run(self) -> int:
        """Work until a signal. Return the exit status: 0, or 1 when something was left undone.

        Call it from the main thread: signals arrive there.
        """
        with self.stop_request:
            try:
                self.start()
            except Exception:
                logger.exception("the worker could not start")
                return 1
            self.stop_request.wait()
            return 0 if self.stop() and self.fatal is None else 1

    def start(self) -> None:
        """Set up the handlers and start all threads. Raises what the handler's `setup` raises."""
        self._slots.start()
        for loop in (self._claiming, self._beating, self._watching, self._completing):
            loop.start()
        logger.info(
            "worker %s takes from %s", self.id, ", ".join(self.options.queues), extra={"worker_id": self.id}
        )

    def stop(self) -> bool:
        """Finish what runs, release the rest, deliver every result. Return whether all of that worked."""
        started_at = time.monotonic()
        self._leases.close()
        self._claiming.stop()
        finished = self._leases.wait_until_none_runs(self.options.grace_seconds) or self._cut_short()
        # A claim that was under way may still have brought some; the claimer releases them as it ends.
        self._claiming.join(JOIN_SECONDS)
        delivered = self._flush()
        self._release_unfinished()
        for loop in (self._completing, self._beating, self._watching):
            loop.stop()
            loop.join(JOIN_SECONDS)
        torn_down = not finished or self._tear_down()
        self._transport.close()
        logger.info("worker %s stopped after %.1f s", self.id, time.monotonic() - started_at)
        return delivered and torn_down

    def _build(self, until_empty: bool) -> None:
        prefetch = Prefetch(self.options, self._leases)
        self._completer = Completer(
            self._client,
            self._leases,
            on_put=lambda: self._completing.wake(),
            on_delivered=lambda: self._claiming.wake(),
        )
        self._claimer = Claimer(
            self.options,
            self._client,
            self._leases,
            self._completer,
            prefetch,
            on_fatal=self._on_fatal,
            on_empty=self.stop_request.set if until_empty else None,
            empty_seconds=lambda: self.empty_seconds,
        )
        self._slots = Slots(
            self._handler,
            self.options,
            self._leases,
            self._completer,
            on_ended=prefetch.ended,
            on_free=lambda: self._claiming.wake() if prefetch.is_low else None,
            on_fatal=self._on_fatal,
        )
        heartbeat = Heartbeat(self._client, self._leases, self.options.lease_seconds)
        self._claiming = Loop("claimer", self._claimer.step, at_end=self._claimer.release_all)
        watch = Watch(self._leases, self.options.lease_seconds)
        self._beating = Loop("heartbeat", heartbeat.step)
        self._watching = Loop("watch", watch.step)
        self._completing = Loop("completer", self._completer.step)

    def _http(self, settings: Settings) -> HTTPTransport:
        # A heartbeat that hangs must fail while there is time for another one within the lease.
        seconds = max(1.0, self.options.lease_seconds / 4)
        return HTTPTransport(settings, min(10.0, seconds), min(CONNECT_SECONDS, seconds))

    def _on_fatal(self, reason: str) -> None:
        logger.critical("the worker stops: %s", reason)
        self.fatal = reason
        self.stop_request.set()

    def _cut_short(self) -> bool:
        """Tell running handlers to stop, and release what does not end. Return whether none runs any more."""
        running = self._leases.running()
        logger.warning("%d sub_tasks still run after %.0f s", len(running), self.options.grace_seconds)
        for lease in running:
            lease.cancel(Reason.SHUTDOWN)
        obeyed = self._leases.wait_until_none_runs(OBEY_SECONDS)
        if not obeyed:
            self._slots.kill()
        self._release_unfinished()
        return obeyed

    def _release_unfinished(self) -> None:
        unfinished = self._leases.unfinished()
        self._claimer.release(unfinished, "were cut short")
        for lease in unfinished:
            self._leases.drop(lease)

    def _tear_down(self) -> bool:
        try:
            self._slots.close()
        except Exception:
            logger.exception("the handler's teardown failed")
            return False
        return True

    def _flush(self) -> bool:
        """Wait until every result is delivered. Return whether that worked in time."""
        give_up_at = time.monotonic() + self.options.flush_seconds
        while self._completer.backlog and time.monotonic() < give_up_at:
            self._leases.wait_for_change(0.1)
        if self._completer.backlog:
            logger.error(
                "%d results could not be delivered; RVQ will have them done again", self._completer.backlog
            )
        return self._completer.backlog == 0
