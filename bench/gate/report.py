"""A run's results are told as a table of streams, the checks, and JSON for whoever started it."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from bench.checks import Check, failed
from bench.gate.checks import check_run
from bench.gate.measured import Measured
from bench.gate.run import Run
from bench.stats import written
from rvq.tables import markdown_table


def finish(run: Run, exceptions: Sequence[str], options: Namespace) -> bool:
    """Check the run, print and write what it came to; return whether locust may exit with 0."""
    measured = run.result(exceptions)
    checks = check_run(measured, run.profile)
    document = {
        "passed": all(check.holds for check in checks),
        "checks": [asdict(check) for check in checks],
        "profile": msgspec.to_builtins(run.profile),
        "window": run.wall_window,
        "measured": asdict(measured),
    }
    for story in run.stories_of_lost() if measured.webhook.lost else []:
        print(story, file=sys.stderr, flush=True)
    print(f"\n{stream_table(measured)}\n{check_lines(checks)}\n{result_line(checks)}", flush=True)
    _write(document, options.result)
    return bool(document["passed"]) or not options.assert_slo


def write_failure(name: str, error: BaseException, options: Namespace) -> None:
    """Print and write that a run came to nothing: it has failed the check of this name."""
    check = Check(name, False, f"{type(error).__name__}: {error}")
    print(f"\n{check_lines([check])}\n{result_line([check])}", file=sys.stderr, flush=True)
    _write({"passed": False, "checks": [asdict(check)]}, getattr(options, "result", None))


def stream_table(measured: Measured) -> str:
    rows = [
        (name, f"{figures.reached:.1f} rps", str(figures.errors), str(figures.shed), *_ms(figures.ms))
        for name, figures in measured.streams.items()
    ]
    webhook = measured.webhook
    invalid = f"{sum(webhook.invalid.values())} invalid"
    rows.append(("webhook", f"{webhook.reached:.1f} rps", invalid, "-", *_ms(webhook.ms, " lag")))
    return markdown_table(("stream", "reached", "errors", "shed", "p50", "p99", "p99.9", "most"), rows)


def check_lines(checks: Sequence[Check]) -> str:
    return "\n".join(f"{check.mark:4} {check.name}: {check.found}" for check in checks)


def result_line(checks: Sequence[Check]) -> str:
    names = failed(checks)
    return f"FAIL: {', '.join(names)}" if names else "PASS"


def _ms(ms: Mapping[str, float], what: str = "") -> tuple[str, ...]:
    return tuple(f"{written(ms[share])} ms{what}" for share in ("p50", "p99", "p99.9", "p100"))


def _write(document: dict[str, Any], file: Path | None) -> None:
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(document, indent=1) + "\n")
