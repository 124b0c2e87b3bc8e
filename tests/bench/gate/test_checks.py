"""Each check fails for its own reason and for no other, and nothing measured is no success."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from bench.gate.checks import check_run
from bench.gate.measured import SHARES, Measured, StreamFigures, WebhookFigures, webhook_figures
from bench.gate.page import html, markdown
from bench.gate.profile import Profile, ProfileError, parse_budgets, read_profile
from bench.gate.qualify import search
from bench.receiver import Received

PROFILE = read_profile(load={"rate": 10, "duration": 10, "warmup": 0})


def percentiles(ms: float) -> dict[str, float]:
    return {f"p{share * 100:g}": ms for share in SHARES}


def stream(**changes: Any) -> StreamFigures:
    healthy = StreamFigures(
        due=100,
        answered=100,
        idle=0,
        reached=10.0,
        errors=0,
        shed=0,
        ms=percentiles(5),
        service_ms=percentiles(4),
        late_ms=percentiles(1),
        kinds_of_errors={},
        course=[],
    )
    return replace(healthy, **changes)


def webhook(**changes: Any) -> WebhookFigures:
    healthy = WebhookFigures(100, 10.0, 100, {}, 0, 0, 0, percentiles(50), [])
    return replace(healthy, **changes)


def measured(of: str = "", exceptions: tuple[str, ...] = (), **changes: Any) -> Measured:
    """A healthy run, with changes to one of its streams, or to the webhooks."""
    streams = {name: stream(**(changes if of == name else {})) for name in ("create", "claim", "complete")}
    return Measured(streams, webhook(**(changes if of == "webhook" else {})), exceptions)


def failed(run: Measured, profile: Profile = PROFILE) -> set[str]:
    return {check.name for check in check_run(run, profile) if not check.holds}


def test_a_healthy_run_passes() -> None:
    assert failed(measured()) == set()


@pytest.mark.parametrize(
    ("run", "check"),
    [
        (measured("create", reached=9.8), "create_throughput"),
        (measured("claim", reached=9.8), "claim_throughput"),
        (measured("create", answered=98), "minimum_counts"),
        (measured("complete", answered=0), "minimum_counts"),
        (measured("webhook", verified=98), "minimum_counts"),
        (measured("create", ms=percentiles(100.1)), "create_p99"),
        (measured("claim", ms=percentiles(100.1)), "claim_p99"),
        (measured("complete", ms=percentiles(100.1)), "complete_p99"),
        (measured("complete", ms=percentiles(math.nan)), "complete_p99"),
        (measured("webhook", ms=percentiles(5000.1)), "webhook_lag_p99"),
        (measured("webhook", ms=percentiles(math.nan)), "webhook_lag_p99"),
        (measured("complete", errors=1, kinds_of_errors={"500 x": 1}), "errors"),
        (measured("claim", shed=1), "shed"),
        (measured("webhook", invalid={"signature": 1}), "signatures"),
        (measured("webhook", lost=1), "lost_webhooks"),
        (measured("webhook", doubled=1), "one_event_a_task"),
        (measured("webhook", duplicates=1), "duplicate_webhooks"),
        (measured("claim", late_ms=percentiles(25.1)), "generator_on_time"),
        (measured(exceptions=("boom x 1",)), "generator_exceptions"),
    ],
)
def test_a_check_fails_alone(run: Measured, check: str) -> None:
    assert failed(run) == {check}


def test_budgets_can_be_overridden() -> None:
    budgets = parse_budgets(["http_p99_ms=4", "reached_share=0.5", "errors=2"])
    strict = read_profile(load={"rate": 10, "duration": 10}, budgets=budgets)
    assert strict.budgets.errors == 2
    assert failed(measured("create", reached=6.0, answered=60), strict) == {
        "create_p99",
        "claim_p99",
        "complete_p99",
    }


@pytest.mark.parametrize("text", ["speed=1", "http_p99_ms", "http_p99_ms=fast"])
def test_a_budget_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ProfileError):
        parse_budgets([text])


@pytest.mark.parametrize(
    "load",
    [
        {"rate": 0},
        {"duration": 0},
        {"warmup": -1},
        {"sub_tasks": 0},
        {"claim_limit": 1001},
        {"payload_bytes": (9, 8)},
    ],
)
def test_a_load_that_makes_no_sense_is_refused(load: dict[str, Any]) -> None:
    with pytest.raises(ProfileError):
        read_profile(load=load)


def test_every_task_is_reconciled_by_its_id() -> None:
    received = Received(
        arrived=[10.5, 11.5, 12.0, 12.5],
        happened=[10.0, 11.0, 11.0, 9.0],
        event_ids=["evt_a", "evt_b", "evt_c", "evt_d"],
        task_ids=["task_a", "task_b", "task_b", "task_of_the_warm_up"],
    )
    figures = webhook_figures(received, ["task_a", "task_b", "task_lost"], (10.0, 12.0))
    assert (figures.expected, figures.lost, figures.doubled, figures.duplicates) == (3, 1, 1, 0)
    assert figures.ms["p100"] == pytest.approx(1000)
    assert figures.reached == pytest.approx(2 / 2)


@pytest.mark.parametrize(("limit", "found"), [(49, 0), (50, 50), (333, 325), (2000, 1000)])
def test_the_search_finds_the_highest_rate_that_passes(limit: float, found: float) -> None:
    best = search(lambda rate: rate <= limit, low=50, high=1000, step=25)
    assert found == best or 0 <= limit - best <= 25


def test_a_run_without_a_result_has_a_report_that_says_so() -> None:
    document = {"passed": False, "checks": [{"name": "start", "holds": False, "found": "<no API>"}]}
    assert "FAIL (start)" in markdown(document)
    assert "&lt;no API&gt;" in html(document, [])
