"""The claimer takes sub_tasks as slots come free, and releases those that wait too long."""

import random
import time
from collections.abc import Callable, Sequence

from ._client import MAX_BATCH, Client
from ._completer import Completer
from ._errors import APIError, Denied, Rejected
from ._leases import Lease, Leases
from ._logs import logger
from ._loop import UNTIL_WOKEN, Backoff
from ._options import Options
from ._prefetch import Prefetch


class Claimer:
    """The claimer makes one claim at a time.

    `on_fatal` is called with an error that retrying can't fix, `on_empty` when claims have come back empty
    for `empty_seconds` and nothing is held. A single empty claim proves nothing: it passes over rows that
    are locked at that moment.
    """

    def __init__(
        self,
        options: Options,
        client: Client,
        leases: Leases,
        completer: Completer,
        prefetch: Prefetch,
        *,
        on_fatal: Callable[[str], None],
        on_empty: Callable[[], None] | None = None,
        empty_seconds: Callable[[], float] = lambda: 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._client = client
        self._leases = leases
        self._completer = completer
        self._prefetch = prefetch
        self._on_fatal = on_fatal
        self._on_empty = on_empty
        self._empty_seconds = empty_seconds
        self._empty_since: float | None = None
        self._clock = clock
        self._backoff = Backoff(0.1, 30.0)
        self._shortest, self._longest = options.poll_seconds
        self._pause = self._shortest
        self._not_before = clock()
        self._ever_answered = False

    def step(self) -> float:
        """Claim once if there is room and it is time. Return the seconds until another try may be useful."""
        self.release(self._prefetch.take_overdue(), "had not started")
        now = self._clock()
        if now < self._not_before:
            return self._not_before - now
        # While results cannot be delivered, more work would only add to them.
        wanted = 0 if self._completer.clogged else min(self._prefetch.room(), MAX_BATCH)
        if wanted <= 0:
            return self._options.prefetch_seconds or UNTIL_WOKEN
        try:
            taken = self._claim(wanted)
        except APIError as error:
            wait = self._failed(error)
        else:
            wait = self._claimed(wanted, taken)
        self._not_before = self._clock() + wait
        return wait

    def release_all(self) -> None:
        """Release whatever has not started; called when the worker stops."""
        self.release(self._leases.take_ready(float("inf")), "had not started")

    def release(self, leases: Sequence[Lease], why: str) -> None:
        """Give sub_tasks back uncharged. Errors are logged only: without a release the leases expire."""
        for start in range(0, len(leases), MAX_BATCH):
            batch = leases[start : start + MAX_BATCH]
            try:
                self._client.release(batch)
                logger.info("released %d sub_tasks that %s", len(batch), why)
            except APIError as error:
                logger.warning(
                    "%d sub_tasks could not be released, their leases will expire: %s", len(batch), error
                )

    def _claim(self, wanted: int) -> int:
        # A safe lower bound: RVQ counts the lease from when the request arrives.
        sent_at = self._clock()
        expires = sent_at + self._options.lease_seconds
        claimed = self._client.claim(wanted, self._options.lease_seconds, self._options.queues)
        now = self._clock()
        self._leases.add([Lease(one, now, expires) for one in claimed])
        self._look_whether_empty(sent_at, len(claimed))
        return len(claimed)

    def _look_whether_empty(self, sent_at: float, taken: int) -> None:
        if taken or self._leases.counts().held or self._completer.backlog:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = sent_at
        if self._on_empty is not None and sent_at - self._empty_since >= self._empty_seconds():
            self._on_empty()

    def _claimed(self, wanted: int, taken: int) -> float:
        """Return the pause: none after a full claim, and the longer the emptier the queue was."""
        self._ever_answered = True
        self._backoff.succeeded()
        if taken >= wanted:
            self._pause = self._shortest
            return 0.0
        pause = self._shortest if taken else self._pause
        self._pause = min(pause * 2, self._longest)
        if self._on_empty is not None:
            pause = min(pause, max(self._empty_seconds() / 4, self._shortest))
        return pause * random.uniform(0.5, 1.0)

    def _failed(self, error: APIError) -> float:
        # A token refused from the start is a wrong setting; later it may be a rotation, so wait.
        if isinstance(error, Rejected) or (isinstance(error, Denied) and not self._ever_answered):
            self._on_fatal(str(error))
        self._empty_since = None
        wait = self._backoff.failed(error.retry_after)
        logger.warning("claim failed, again in %.1f s: %s", wait, error)
        return wait
