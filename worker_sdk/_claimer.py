"""Claims sub_tasks as slots come free, and gives back what waits too long."""

import logging
import random
import time
from collections.abc import Callable, Sequence

from ._backoff import Backoff
from ._client import MAX_BATCH, Client
from ._completer import Completer
from ._errors import APIError, Denied, Rejected
from ._handler import Options
from ._leases import Lease, Leases
from ._loop import UNTIL_WOKEN
from ._pace import Pace

logger = logging.getLogger("worker_sdk")


class Claimer:
    """One claim at a time. `on_fatal` hears of an error that no waiting will mend, `on_empty` of an empty
    queue while nothing is in hand."""

    def __init__(
        self,
        options: Options,
        client: Client,
        leases: Leases,
        completer: Completer,
        pace: Pace,
        *,
        on_fatal: Callable[[str], None],
        on_empty: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._client = client
        self._leases = leases
        self._completer = completer
        self._pace = pace
        self._on_fatal = on_fatal
        self._on_empty = on_empty
        self._clock = clock
        self._backoff = Backoff(0.1, 30.0)
        self._shortest, self._longest = options.poll_seconds
        self._pause = self._shortest
        self._not_before = clock()
        self._ever_answered = False
        self._low = 0

    @property
    def is_low(self) -> bool:
        """Whether so few are in hand that a step would claim; before, no slot need wake it."""
        return self._leases.counts().held <= self._low

    def step(self) -> float:
        """Claim once if there is room and it is time; seconds until it may be worth trying again."""
        self._give_back_overdue()
        now = self._clock()
        if now < self._not_before:
            return self._not_before - now
        wanted = self._room()
        if wanted <= 0:
            return self._options.prefetch_seconds or UNTIL_WOKEN
        try:
            taken = self._claim(wanted)
        except APIError as error:
            self._wait_for(self._failed(error))
        else:
            self._wait_for(self._answered(wanted, taken))
        return max(0.0, self._not_before - self._clock())

    def give_back_all(self) -> None:
        """Release whatever has not started; used when the worker stops."""
        self._release(self._leases.take_ready(float("inf")))

    def _room(self) -> int:
        """How many could start within `prefetch_seconds`; 0 while results cannot be delivered."""
        if self._completer.clogged:
            return 0
        counts = self._leases.counts()
        free = max(0, self._options.concurrency - counts.held)
        prefetch = self._pace.prefetch(0.0 if free else self._youngest_run())
        # Not a request for every single slot that comes free while enough is waiting here.
        self._low = self._options.concurrency + (prefetch - 1) // 2
        wanted = min(self._options.concurrency + prefetch - counts.held, MAX_BATCH)
        return wanted if counts.held <= self._low else 0

    def _youngest_run(self) -> float:
        running = self._leases.running()
        return self._clock() - (running[-1].started_at or 0.0) if running else 0.0

    def _claim(self, wanted: int) -> int:
        sent_at = self._clock()
        claimed = self._client.claim(wanted, self._options.lease_seconds, self._options.queues)
        expires = sent_at + self._options.lease_seconds
        self._leases.add([Lease(one, self._clock(), expires) for one in claimed])
        return len(claimed)

    def _answered(self, wanted: int, taken: int) -> float:
        """Full answers are followed at once; the emptier the queue, the longer the pause."""
        self._ever_answered = True
        self._backoff.succeeded()
        if taken == 0 and self._leases.counts().held == 0 and not self._completer.backlog:
            self._on_empty()
        if taken >= wanted:
            self._pause = self._shortest
            return 0.0
        pause = self._shortest if taken else self._pause
        self._pause = min(pause * 2, self._longest)
        return pause * random.uniform(0.5, 1.0)

    def _failed(self, error: APIError) -> float:
        # Refused from the start is a wrong setting; later it may be a rotation, and waiting is right.
        if isinstance(error, Rejected) or (isinstance(error, Denied) and not self._ever_answered):
            self._on_fatal(str(error))
        wait = self._backoff.failed(error.retry_after)
        logger.warning("claim failed, again in %.1f s: %s", wait, error)
        return wait

    def _wait_for(self, seconds: float) -> None:
        self._not_before = self._clock() + seconds

    def _give_back_overdue(self) -> None:
        """What waits here although others could run it: the work turned out slower than measured."""
        patience = max(2 * self._options.prefetch_seconds, 1.0)
        self._release(self._leases.take_ready(self._clock() - patience))

    def _release(self, leases: Sequence[Lease]) -> None:
        for start in range(0, len(leases), MAX_BATCH):
            batch = leases[start : start + MAX_BATCH]
            try:
                self._client.release(batch)
                logger.info("released %d sub_tasks that had not started", len(batch))
            except APIError as error:
                logger.warning(
                    "%d sub_tasks could not be released, their leases will expire: %s", len(batch), error
                )
