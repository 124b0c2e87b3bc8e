"""What must hold of a run: every check by name, with what was found and what is allowed."""

from __future__ import annotations

from collections.abc import Iterator

from bench.checks import Check, at_most
from bench.gate.measured import Measured
from bench.gate.profile import Profile
from bench.stats import written


def check_run(measured: Measured, profile: Profile) -> list[Check]:
    """Return all checks; the run passes when every one holds."""
    return [
        *_throughput(measured, profile),
        *_latency(measured, profile),
        *_faults(measured, profile),
        *_webhooks(measured, profile),
        *_generator(measured, profile),
    ]


def _throughput(measured: Measured, profile: Profile) -> Iterator[Check]:
    wanted = profile.load.rate * profile.budgets.reached_share
    for name in ("create", "claim"):
        reached = measured.streams[name].reached
        found = f"{written(reached)} a second of {written(profile.load.rate)}"
        yield Check(f"{name}_throughput", reached >= wanted, found)
    least = int(profile.load.rate * profile.load.duration * profile.budgets.reached_share)
    counts = {name: figures.answered for name, figures in measured.streams.items() if name != "complete"}
    counts["webhook"] = measured.webhook.verified
    # Ends that are bounded by what others got have to be there all the same.
    enough = min(counts.values()) >= max(1, least) and measured.streams["complete"].answered > 0
    counts["complete"] = measured.streams["complete"].answered
    told = ", ".join(f"{name} {count}" for name, count in counts.items())
    yield Check("minimum_counts", enough, f"{told}; at least {max(1, least)}")


def _latency(measured: Measured, profile: Profile) -> Iterator[Check]:
    for name, figures in measured.streams.items():
        yield at_most(f"{name}_p99", figures.ms["p99"], profile.budgets.http_p99_ms, " ms")
    yield at_most("webhook_lag_p99", measured.webhook.ms["p99"], profile.budgets.webhook_lag_p99_ms, " ms")


def _faults(measured: Measured, profile: Profile) -> Iterator[Check]:
    errors = {name: figures.kinds_of_errors for name, figures in measured.streams.items() if figures.errors}
    told = "; ".join(f"{name}: {kind} x {n}" for name, kinds in errors.items() for kind, n in kinds.items())
    count = sum(figures.errors for figures in measured.streams.values())
    yield at_most("errors", count, profile.budgets.errors, f" ({told})" if told else "")
    yield at_most("shed", sum(f.shed for f in measured.streams.values()), profile.budgets.shed)


def _webhooks(measured: Measured, profile: Profile) -> Iterator[Check]:
    webhook, budgets = measured.webhook, profile.budgets
    invalid = sum(webhook.invalid.values())
    told = ", ".join(f"{reason} x {n}" for reason, n in webhook.invalid.items())
    yield at_most("signatures", invalid, budgets.invalid_signatures, f" ({told})" if told else " invalid")
    yield at_most("lost_webhooks", webhook.lost, budgets.lost_webhooks, f" of {webhook.expected} tasks")
    yield at_most("one_event_a_task", webhook.doubled, 0, " tasks with several events")
    yield at_most("duplicate_webhooks", webhook.duplicates, budgets.duplicate_webhooks)


def _generator(measured: Measured, profile: Profile) -> Iterator[Check]:
    lates = (figures.late_ms["p99"] for figures in measured.streams.values() if figures.answered)
    late = max(lates, default=float("nan"))
    yield at_most("generator_on_time", late, profile.budgets.generator_late_p99_ms, " ms late at p99")
    yield Check("generator_exceptions", not measured.exceptions, "; ".join(measured.exceptions) or "none")
