"""Writes what was found: peers.md to read, peers.json with every turn, an SVG for each of (a) and (b)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.peers.rounds import FAN_IN_SUB_TASKS, Size
from bench.peers.system import Outcome, System
from bench.peers.verdict import cpu_us, fan_in_ms, single_calls, throughput, verdicts
from bench.stats import table, written
from bench.svg import bar_chart

HEAD = ("", "(a) sub_tasks a second", "CPU us each", "of it PostgreSQL", "(b) p50 ms", "(b) p99 ms")


def write_report(outcomes: Sequence[Outcome], size: Size, about: Mapping[str, object], folder: Path) -> Path:
    """Returns the Markdown's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in charts(outcomes).items():
        (folder / f"peers-{name}.svg").write_text(svg)
    (folder / "peers.json").write_text(json.dumps(_document(outcomes, size, about), indent=1) + "\n")
    report = folder / "peers.md"
    report.write_text(markdown(outcomes, size, about))
    return report


def charts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    measured = [one for one in outcomes if one.turns]
    rates = {one.system.title: {"sub_tasks a second": throughput(one)} for one in measured}
    waits = {one.system.title: {"p50": fan_in_ms(one, 0.5), "p99": fan_in_ms(one, 0.99)} for one in measured}
    title = f"One task of {FAN_IN_SUB_TASKS} sub_tasks to its callback"
    return {
        "throughput": bar_chart("Create, claim, complete in batches", "sub_tasks a second", rates),
        "fan-in": bar_chart(title, "ms", waits),
    }


def markdown(outcomes: Sequence[Outcome], size: Size, about: Mapping[str, object]) -> str:
    facts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items())
    whole = "" if size.factor == 1 else f" **Size factor {size.factor:g}: not the full measurement.**"
    parts = [
        "# RVQ beside other task queues\n",
        f"{time.strftime('%Y-%m-%d', time.gmtime())}; {facts}. Medians of {size.rounds} rounds, systems"
        f" alternating.{whole} Written by `make peers`; docs/benchmarks.md tells how and what is unlike.\n",
        table(HEAD, [_row(one) for one in outcomes if one.turns]),
        "".join(f"- {line}\n" for line in verdicts(outcomes)),
        "".join(_single_calls(one) for one in outcomes),
        "".join(f"- {line}\n" for line in not_run(outcomes)),
        "![throughput](peers-throughput.svg)\n\n![fan-in](peers-fan-in.svg)\n",
        _modes(outcomes),
    ]
    return "\n".join(part for part in parts if part)


def not_run(outcomes: Sequence[Outcome]) -> list[str]:
    return [f"{one.system.title}: not run: {one.trouble}" for one in outcomes if one.trouble]


def _row(outcome: Outcome) -> tuple[str, ...]:
    postgres, rest = cpu_us(outcome, "PostgreSQL"), cpu_us(outcome, "the rest")
    figures = (throughput(outcome), postgres + rest, postgres)
    waits = (fan_in_ms(outcome, 0.5), fan_in_ms(outcome, 0.99))
    return outcome.system.title, *map(written, (*figures, *waits))


def _single_calls(outcome: Outcome) -> str:
    rates = single_calls(outcome)
    told = ", ".join(f"{name} {written(rate)}" for name, rate in rates.items())
    return f"- (c) single calls over HTTP, a second: {outcome.system.title}: {told}\n" if rates else ""


def _modes(outcomes: Sequence[Outcome]) -> str:
    """How each was used, with versions."""
    lines = [f"- **{one.system.title}** ({_versions(one)}). {_mode(one.system)}\n" for one in outcomes]
    return "".join(["## How each was used\n\n", *lines])


def _mode(system: System) -> str:
    return f"(a): {system.batch_mode}. (b): {system.fan_in_mode}."


def _versions(outcome: Outcome) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(outcome.versions.items())) or "not run"


def _document(outcomes: Sequence[Outcome], size: Size, about: Mapping[str, object]) -> dict[str, object]:
    return {
        "about": dict(about),
        "size": asdict(size),
        "verdicts": verdicts(outcomes),
        "systems": {
            one.system.name: {
                "title": one.system.title,
                "versions": one.versions,
                "trouble": one.trouble,
                "turns": [asdict(turn) for turn in one.turns],
            }
            for one in outcomes
        },
    }
