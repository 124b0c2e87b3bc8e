"""The completer reports outcomes in batches and loses none: what got no response is sent again unchanged."""

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ._client import MAX_BATCH, Client
from ._errors import APIError, Rejected
from ._leases import Lease, Leases
from ._logs import logger
from ._loop import UNTIL_WOKEN, Backoff
from ._outcome import Outcome, failure

MAX_BATCH_BYTES = 4 * 1024 * 1024
MAX_BACKLOG = 2 * MAX_BATCH  # undelivered outcomes at which claiming pauses
MAX_BACKLOG_BYTES = 64 * 1024 * 1024
INVALID = "it is invalid (over 1 MiB, nested too deep, or with text that cannot be stored)"
LINGER_SECONDS = 0.005  # how long the first outcome of a batch waits for others
CRASHES_TO_SPLIT = 3
CRASHES_TO_REFUSE = 10


@dataclass(frozen=True)
class Report:
    lease: Lease
    data: bytes
    refused: bool = False
    """Whether this replaces a report that RVQ did not take."""


@dataclass
class Batch:
    reports: list[Report] = field(default_factory=list)
    crashes: int = 0
    """How often the response was 500: one of the reports may be what breaks the server."""

    @property
    def size(self) -> int:
        return sum(len(report.data) for report in self.reports)


class Completer:
    """The completer reports what `put` brings. Any thread may call `put`; only one calls `step`."""

    def __init__(
        self,
        client: Client,
        leases: Leases,
        *,
        on_put: Callable[[], None] = lambda: None,
        on_delivered: Callable[[], None] = lambda: None,
        linger_seconds: float = LINGER_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._leases = leases
        self._on_put = on_put
        self._on_delivered = on_delivered
        self._linger_seconds = linger_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._fresh: deque[Report] = deque()
        self._batches: deque[Batch] = deque()  # ready to be sent; only `step` touches it
        self._backlog = 0
        self._backlog_bytes = 0
        self._first_put = 0.0
        self._not_before = 0.0
        self._backoff = Backoff(0.1, 15.0)

    @property
    def backlog(self) -> int:
        """How many outcomes are not delivered yet."""
        return self._backlog

    @property
    def clogged(self) -> bool:
        """Whether no more work should be claimed: results can't be delivered at all, or not fast enough."""
        full = self._backlog >= MAX_BACKLOG or self._backlog_bytes >= MAX_BACKLOG_BYTES
        return full or self._backoff.failures > 0

    def put(self, lease: Lease, outcome: Outcome) -> None:
        """Take one outcome. This never blocks: the number of leases held bounds how many can come."""
        self._leases.reporting(lease)
        report = Report(lease, outcome.report(lease.id, lease.token))
        with self._lock:
            self._fresh.append(report)
            self._backlog += 1
            self._backlog_bytes += len(report.data)
            first = len(self._fresh) == 1
            if first:
                self._first_put = self._clock()
            notable = first or len(self._fresh) == MAX_BATCH
        if notable:
            self._on_put()

    def step(self) -> float:
        """Send at most one batch. Return the seconds until there is something to do."""
        now = self._clock()
        if now < self._not_before:
            return self._not_before - now
        self._form_batch()
        if self._batches:
            self._send(self._batches.popleft())
            return max(0.0, self._not_before - self._clock()) if self._batches or self._fresh else UNTIL_WOKEN
        return self._linger()

    def _linger(self) -> float:
        with self._lock:
            if not self._fresh:
                return UNTIL_WOKEN
            return max(0.0, self._first_put + self._linger_seconds - self._clock())

    def _form_batch(self) -> None:
        """Move fresh reports, up to the limits, into one batch when it would be full or is old enough."""
        with self._lock:
            young = self._clock() < self._first_put + self._linger_seconds
            if not self._fresh or (young and len(self._fresh) < MAX_BATCH):
                return
            batch = Batch([self._fresh.popleft()])
            size = batch.size
            while (
                self._fresh
                and len(batch.reports) < MAX_BATCH
                and size + len(self._fresh[0].data) <= MAX_BATCH_BYTES
            ):
                size += len(self._fresh[0].data)
                batch.reports.append(self._fresh.popleft())
        self._batches.append(batch)

    def _send(self, batch: Batch) -> None:
        try:
            outcomes = self._client.complete([report.data for report in batch.reports])
        except Rejected as error:
            self._divide(batch, str(error), retryable=False)
        except APIError as error:
            self._failed(batch, error)
        else:
            self._recovered()
            for report, outcome in zip(batch.reports, outcomes, strict=True):
                self._settle(report, outcome)
            self._on_delivered()

    def _recovered(self) -> None:
        if self._backoff.failures > 1:
            logger.info("results are delivered again, %d waiting", self._backlog)
        self._backoff.succeeded()

    def _failed(self, batch: Batch, error: APIError) -> None:
        """Keep the batch behind the others: if it is what fails, it does not hold them up."""
        wait = self._backoff.failed(error.retry_after)
        self._not_before = self._clock() + wait
        logger.warning("complete failed, %d results kept, again in %.1f s: %s", self._backlog, wait, error)
        batch.crashes += error.status == 500
        if batch.crashes >= (CRASHES_TO_SPLIT if len(batch.reports) > 1 else CRASHES_TO_REFUSE):
            self._divide(batch, str(error), retryable=True)
        else:
            self._batches.append(batch)

    def _divide(self, batch: Batch, reason: str, *, retryable: bool) -> None:
        """Halve the batch to find the report that is refused, so that it costs the others nothing."""
        middle = len(batch.reports) // 2
        if middle == 0:
            self._refuse(batch.reports[0], reason, retryable=retryable)
            return
        self._batches.extendleft([Batch(batch.reports[middle:]), Batch(batch.reports[:middle])])

    def _settle(self, report: Report, outcome: str) -> None:
        if outcome == "invalid":
            self._refuse(report, INVALID, retryable=False)
            return
        if outcome in ("stale", "unknown"):
            logger.warning(
                "the outcome of sub_task %s came too late: %s",
                report.lease.id,
                outcome,
                extra={"sub_task_id": report.lease.id, "outcome": outcome},
            )
        self._done(report)

    def _refuse(self, report: Report, reason: str, *, retryable: bool) -> None:
        """Report a failure in place of what RVQ does not take, but only once."""
        lease = report.lease
        logger.error(
            "RVQ does not take the outcome of %s: %s", lease.id, reason, extra={"sub_task_id": lease.id}
        )
        if report.refused:
            self._done(report)
            return
        message = f"RVQ did not take the outcome ({len(report.data)} bytes): {reason}"
        replacement = failure(message, "Refused", retryable=retryable, code="result_refused")
        data = replacement.report(lease.id, lease.token)
        with self._lock:
            self._backlog_bytes += len(data) - len(report.data)
        self._batches.append(Batch([replace(report, data=data, refused=True)]))

    def _done(self, report: Report) -> None:
        with self._lock:
            self._backlog -= 1
            self._backlog_bytes -= len(report.data)
        self._leases.drop(report.lease)
