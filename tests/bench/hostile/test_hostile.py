"""The hostile suite as `make hostile` runs it, with a short deadline; and that it can fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.hostile import ALL, BY_NAME, Behaviour
from bench.hostile.checks import MIB, check_delivery, check_lags, check_memory
from tests.support.source import ROOT

SILENT = ALL["silent"]


@pytest.mark.slow
def test_the_real_dispatcher_keeps_its_bounds_among_all_hostile_receivers_at_once() -> None:
    command = [sys.executable, "-m", "rvq.__main__", "hostile", "--deadline", "3", "--seconds", "6"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    told = {line.split()[0] for line in run.stdout.splitlines() if line.endswith("  ok")}
    assert set(ALL) | set(BY_NAME) <= told
    assert run.stdout.endswith("PASS\n")


def test_an_unknown_behaviour_is_an_error() -> None:
    command = [sys.executable, "-m", "rvq.__main__", "hostile", "polite"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert "polite" in run.stderr


def test_the_command_finds_the_suite_from_any_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rvq.__main__", "hostile", "--list"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert set(run.stdout.split()) == set(ALL) | set(BY_NAME)


def delivery(**attempt: Any) -> dict[str, Any]:
    """As the API tells it after one attempt that fits the silent receiver."""
    first = {
        "outcome": "unknown",
        "ended_at": "2026-01-01T00:00:00Z",
        "detail": {"phases_ms": {"total": 3000.0}},
        "answer": None,
        **attempt,
    }
    return {"status": "pending", "next_attempt_at": "2026-01-01T00:00:05Z", "attempts": [first]}


def faults(found: dict[str, Any] | None, behaviour: Behaviour = SILENT) -> list[str]:
    return check_delivery("x", behaviour, found, deadline=3.0).faults


def test_a_sound_attempt_has_no_faults() -> None:
    assert faults(delivery()) == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (None, "no attempt"),
        ({**delivery(), "attempts": []}, "no attempt"),
        (delivery(detail={"reason": "dispatcher_lost"}), "not explained"),
        (delivery(outcome="timeout"), "should be unknown"),
        (delivery(detail={"phases_ms": {"total": 3501.0}}), "over the deadline"),
        (delivery(detail={"phases_ms": {"total": 1.0}, "answer_cut": "size"}), "cut by size"),
        (delivery(answer="x" * 8193), "too much of the answer"),
        ({**delivery(), "status": "delivered"}, "delivered after unknown"),
        ({**delivery(), "next_attempt_at": "2026-01-01T00:00:01Z"}, "next attempt after 1 s"),
        ({**delivery(), "next_attempt_at": "2026-01-04T00:00:00Z"}, "next attempt after"),
    ],
)
def test_each_rule_is_enforced(found: dict[str, Any] | None, fault: str) -> None:
    (only,) = faults(found)
    assert fault in only


def test_a_delivery_after_gone_must_be_dead() -> None:
    found = {**delivery(outcome="gone"), "status": "delivered"}
    assert faults(found, ALL["status-410"]) == ["delivered after gone"]


def test_a_late_or_a_lost_webhook_of_the_healthy_host_fails_the_run() -> None:
    assert check_lags("", [0.1] * 200, 200).holds
    assert not check_lags("", [0.1] * 199, 200).holds
    assert not check_lags("", [0.1] * 196 + [1.1] * 4, 200).holds
    assert not check_lags("", [], 0).holds


def test_memory_over_the_bound_fails_the_run() -> None:
    assert check_memory(16 * MIB).holds
    assert not check_memory(16 * MIB + 1).holds
