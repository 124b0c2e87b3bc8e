"""Findings are written as Markdown to read, JSON with every run, and an SVG for each plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.checks import WORDS
from bench.core.finding import Finding, Size, Target
from bench.core.sample import Variants, median
from bench.reports import part_of_it, when_and_where, write_files
from bench.stats import written
from rvq.tables import markdown_table


def write_report(
    findings: Mapping[str, Finding], size: Size, about: Mapping[str, object], folder: Path
) -> Path:
    """Write core.md, core.json and core-SCENARIO-PLOT.svg into `folder`; return the Markdown's path."""
    plots = {f"{name}-{plot}": svg for name, one in findings.items() for plot, svg in one.plots.items()}
    markdown, document = _markdown(findings, size, about), _document(findings, size, about)
    return write_files(folder, "core", markdown, document, plots)


def target_rows(findings: Mapping[str, Finding]) -> list[tuple[str, str, str, str, str]]:
    return [
        (name, target.what, written(target.value), _bound(target), WORDS[target.holds])
        for name, finding in findings.items()
        for target in finding.targets
    ]


def _markdown(findings: Mapping[str, Finding], size: Size, about: Mapping[str, object]) -> str:
    head = (
        f"# The queue core, straight on PostgreSQL\n\n{when_and_where(about)}"
        f" Medians of {size.runs} runs, variants alternating.{part_of_it(size.factor)}"
        " Written by `make bench-core`; docs/benchmarks.md tells the method.\n\n"
    )
    targets = markdown_table(("scenario", "figure", "value", "target", ""), target_rows(findings))
    return head + targets + "".join(_section(name, finding) for name, finding in findings.items())


def _section(name: str, finding: Finding) -> str:
    parts = [f"\n## {name}: {finding.question}\n", *(f"\n{note}\n" for note in finding.notes), "\n"]
    parts.append(markdown_table(("", *finding.shown), _rows(finding.samples, finding.shown)))
    parts += [f"\n![{plot}](core-{name}-{plot}.svg)\n" for plot in finding.plots]
    parts += [f"\n### {title}\n\n{text}" for title, text in finding.tables.items()]
    return "".join(parts)


def _rows(samples: Variants, figures: Sequence[str]) -> list[tuple[str, ...]]:
    return [(name, *(written(median(runs, figure)) for figure in figures)) for name, runs in samples.items()]


def _bound(target: Target) -> str:
    if target.most is not None:
        return f"at most {written(target.most)}"
    return f"at least {written(target.least)}" if target.least is not None else ""


def _document(findings: Mapping[str, Finding], size: Size, about: Mapping[str, object]) -> dict[str, object]:
    return {
        "about": dict(about),
        "size": asdict(size),
        "scenarios": {
            name: {
                "question": finding.question,
                "runs": {
                    variant: [run.figures() for run in runs] for variant, runs in finding.samples.items()
                },
                "targets": [{**asdict(target), "holds": target.holds} for target in finding.targets],
            }
            for name, finding in findings.items()
        },
    }
