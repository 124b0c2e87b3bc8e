"""Results are written as peers.md to read, peers.json with every turn, and an SVG for each of (a) and (b)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.peers.claims import check_claims, cpu_us, fan_in_ms, single_calls, throughput, told
from bench.peers.rounds import FAN_IN_SUB_TASKS, Size
from bench.peers.system import SystemResult
from bench.reports import part_of_it, when_and_where, write_files
from bench.stats import written
from bench.svg import bar_chart
from rvq.tables import markdown_table

HEAD = ("", "(a) sub_tasks a second", "CPU us each", "of it PostgreSQL", "(b) p50 ms", "(b) p99 ms")


def write_report(
    results: Sequence[SystemResult], size: Size, about: Mapping[str, object], folder: Path
) -> Path:
    """Write all files into `folder`; return the Markdown's path."""
    document = _document(results, size, about)
    return write_files(folder, "peers", markdown(results, size, about), document, charts(results))


def charts(results: Sequence[SystemResult]) -> dict[str, str]:
    measured = [one for one in results if one.turns]
    rates = {one.system.title: {"sub_tasks a second": throughput(one)} for one in measured}
    waits = {one.system.title: {"p50": fan_in_ms(one, 0.5), "p99": fan_in_ms(one, 0.99)} for one in measured}
    title = f"One task of {FAN_IN_SUB_TASKS} sub_tasks to its callback"
    return {
        "throughput": bar_chart("Create, claim, complete in batches", "sub_tasks a second", rates),
        "fan-in": bar_chart(title, "ms", waits),
    }


def markdown(results: Sequence[SystemResult], size: Size, about: Mapping[str, object]) -> str:
    parts = [
        "# RVQ beside other task queues\n",
        f"{when_and_where(about)} Medians of {size.rounds} rounds, systems alternating."
        f"{part_of_it(size.factor)} Written by `make peers`;"
        " docs/benchmarks.md tells how and what is unlike.\n",
        markdown_table(HEAD, [_row(one) for one in results if one.turns]),
        "".join(f"- {line}\n" for line in told(check_claims(results))),
        "".join(_single_calls(one) for one in results),
        "".join(f"- {line}\n" for line in not_run(results)),
        "![throughput](peers-throughput.svg)\n\n![fan-in](peers-fan-in.svg)\n",
        _modes(results),
    ]
    return "\n".join(part for part in parts if part)


def not_run(results: Sequence[SystemResult]) -> list[str]:
    return [f"{one.system.title}: not run: {one.trouble}" for one in results if one.trouble]


def _row(result: SystemResult) -> tuple[str, ...]:
    postgres, rest = cpu_us(result, "PostgreSQL"), cpu_us(result, "the rest")
    figures = (throughput(result), postgres + rest, postgres)
    waits = (fan_in_ms(result, 0.5), fan_in_ms(result, 0.99))
    return result.system.title, *map(written, (*figures, *waits))


def _single_calls(result: SystemResult) -> str:
    rates = single_calls(result)
    listed = ", ".join(f"{name} {written(rate)}" for name, rate in rates.items())
    return f"- (c) single calls over HTTP, a second: {result.system.title}: {listed}\n" if rates else ""


def _modes(results: Sequence[SystemResult]) -> str:
    """Tell how each was used, with versions."""
    used = ((one, one.system) for one in results)
    lines = [
        f"- **{system.title}** ({_versions(one)}). (a): {system.batch_mode}. (b): {system.fan_in_mode}.\n"
        for one, system in used
    ]
    return "".join(["## How each was used\n\n", *lines])


def _versions(result: SystemResult) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(result.versions.items())) or "not run"


def _document(results: Sequence[SystemResult], size: Size, about: Mapping[str, object]) -> dict[str, object]:
    return {
        "about": dict(about),
        "size": asdict(size),
        "verdicts": told(check_claims(results)),
        "systems": {
            one.system.name: {
                "title": one.system.title,
                "versions": one.versions,
                "trouble": one.trouble,
                "turns": [asdict(turn) for turn in one.turns],
            }
            for one in results
        },
    }
