"""The figures of a run are worked out from the raw values of its window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.gate.stream import Stream
from bench.receiver import Received, duplicates
from bench.stats import percentile

Window = tuple[float, float]  # seconds of a clock: from, until
Second = tuple[float, float, float]  # second of the window, p50, p99 (ms)
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999, 1.0)


@dataclass(frozen=True)
class StreamFigures:
    """`reached`: responses a second that came inside the window. Milliseconds count from the due time.

    `service_ms`: from the sending, without the generator's own lateness (`late_ms`).
    """

    due: int
    answered: int
    idle: int
    reached: float
    errors: int
    shed: int
    ms: Mapping[str, float]
    service_ms: Mapping[str, float]
    late_ms: Mapping[str, float]
    kinds_of_errors: Mapping[str, int]
    course: Sequence[Second] = field(repr=False)


@dataclass(frozen=True)
class WebhookFigures:
    """`expected`: tasks created in the window; `lost` of them have no event, `doubled` have several ids."""

    expected: int
    reached: float
    verified: int
    invalid: Mapping[str, int]
    duplicates: int
    lost: int
    doubled: int
    ms: Mapping[str, float]
    course: Sequence[Second] = field(repr=False)


@dataclass(frozen=True)
class Measured:
    """All figures of a run. `exceptions`: texts of what went wrong inside the generator."""

    streams: Mapping[str, StreamFigures]
    webhook: WebhookFigures
    exceptions: Sequence[str] = ()


def stream_figures(stream: Stream, window: Window) -> StreamFigures:
    low, high = window
    ok = stream.ok
    inside = [place for place, due in enumerate(ok.due) if low <= due < high]
    errors = [why for due, why in stream.errors if low <= due < high]
    timed = [(ok.due[p] - low, (ok.answered[p] - ok.due[p]) * 1e3) for p in inside]
    late = [ms * 1e3 for due, ms in zip(stream.late_due, stream.late, strict=True) if low <= due < high]
    return StreamFigures(
        due=round((high - low) * stream.rate),
        answered=len(inside),
        idle=sum(low <= due < high for due in stream.idle),
        reached=sum(low <= answered < high for answered in ok.answered) / (high - low),
        errors=len(errors),
        shed=sum(low <= due < high for due in stream.shed),
        ms=percentiles([ms for _, ms in timed]),
        service_ms=percentiles([(ok.answered[p] - ok.sent[p]) * 1e3 for p in inside]),
        late_ms=percentiles(late),
        kinds_of_errors=dict(Counter(_kind(why) for why in errors).most_common(8)),
        course=course(timed),
    )


def webhook_figures(received: Received, created: Sequence[str], window: Window) -> WebhookFigures:
    """Work out the figures of the webhooks of the tasks `created` in the window (Unix seconds)."""
    low, high = window
    inside = [place for place, happened in enumerate(received.happened) if low <= happened < high]
    timed = [(received.happened[p] - low, (received.arrived[p] - received.happened[p]) * 1e3) for p in inside]
    events: dict[str, set[str]] = {task_id: set() for task_id in created}
    for task_id, event_id in zip(received.task_ids, received.event_ids, strict=True):
        if task_id in events:
            events[task_id].add(event_id)
    return WebhookFigures(
        expected=len(created),
        reached=sum(low <= arrived < high for arrived in received.arrived) / (high - low),
        verified=len(received.arrived),
        invalid=received.invalid,
        duplicates=duplicates(received),
        lost=sum(not ids for ids in events.values()),
        doubled=sum(len(ids) > 1 for ids in events.values()),
        ms=percentiles([ms for _, ms in timed]),
        course=course(timed),
    )


def percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {f"p{share * 100:g}": percentile(ordered, share) for share in SHARES}


def course(timed: Sequence[tuple[float, float]]) -> list[Second]:
    """Return p50 and p99 of each second, from (second, ms) pairs."""
    by_second: dict[int, list[float]] = {}
    for second, ms in timed:
        by_second.setdefault(int(second), []).append(ms)
    return [
        (float(second), percentile(sorted(values), 0.5), percentile(sorted(values), 0.99))
        for second, values in sorted(by_second.items())
    ]


def _kind(why: str) -> str:
    """Return the kind of an error: those that differ only in a request id are one kind."""
    return why[:60] if not why[:3].isdigit() else why[:3] + " " + _code(why)


def _code(why: str) -> str:
    """Return the `code` of a problem document, else the text's beginning."""
    _, found, rest = why.partition('"code":"')
    return rest.partition('"')[0] if found else why[4:60]
