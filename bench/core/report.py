"""Writes findings: Markdown to read, JSON with every run, an SVG for each plot."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from app.paths import ROOT
from bench.core.finding import Finding, Size, Target
from bench.core.sample import Variants, median
from bench.stats import table, written

RESULTS = ROOT / "bench" / "results"
WORDS = {True: "holds", False: "**MISSED**", None: ""}


def write_report(
    findings: Mapping[str, Finding], size: Size, about: Mapping[str, object], folder: Path
) -> Path:
    """core.md, core.json and core-SCENARIO-PLOT.svg in `folder`; returns the Markdown's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, finding in findings.items():
        for plot, svg in finding.plots.items():
            (folder / f"core-{name}-{plot}.svg").write_text(svg)
    (folder / "core.json").write_text(json.dumps(_document(findings, size, about), indent=1) + "\n")
    report = folder / "core.md"
    report.write_text(_markdown(findings, size, about))
    return report


def target_rows(findings: Mapping[str, Finding]) -> list[tuple[str, str, str, str, str]]:
    return [
        (name, target.what, written(target.value), _bound(target), WORDS[target.holds])
        for name, finding in findings.items()
        for target in finding.targets
    ]


def _markdown(findings: Mapping[str, Finding], size: Size, about: Mapping[str, object]) -> str:
    facts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items())
    whole = "" if size.factor == 1 else f" **Size factor {size.factor:g}: not the full measurement.**"
    head = (
        f"# The queue core, straight on PostgreSQL\n\n{time.strftime('%Y-%m-%d', time.gmtime())}; {facts}."
        f" Medians of {size.runs} runs, variants alternating.{whole}"
        " Written by `make bench-core`; docs/benchmarks.md tells the method.\n\n"
    )
    targets = table(("scenario", "figure", "value", "target", ""), target_rows(findings))
    return head + targets + "".join(_section(name, finding) for name, finding in findings.items())


def _section(name: str, finding: Finding) -> str:
    parts = [f"\n## {name}: {finding.question}\n", *(f"\n{note}\n" for note in finding.notes), "\n"]
    parts.append(table(("", *finding.shown), _rows(finding.samples, finding.shown)))
    parts += [f"\n![{plot}](core-{name}-{plot}.svg)\n" for plot in finding.plots]
    parts += [f"\n### {title}\n\n{text}" for title, text in finding.tables.items()]
    return "".join(parts)


def _rows(samples: Variants, shown: object) -> list[tuple[str, ...]]:
    figures = list(shown) if isinstance(shown, tuple | list) else []
    return [(name, *(written(median(runs, figure)) for figure in figures)) for name, runs in samples.items()]


def _bound(target: Target) -> str:
    if target.most is not None:
        return f"at most {written(target.most)}"
    return f"at least {written(target.least)}" if target.least is not None else ""


def _document(findings: Mapping[str, Finding], size: Size, about: Mapping[str, object]) -> dict[str, object]:
    return {
        "about": dict(about),
        "size": {"factor": size.factor, "runs": size.runs},
        "scenarios": {
            name: {
                "question": finding.question,
                "runs": {
                    variant: [run.figures() for run in runs] for variant, runs in finding.samples.items()
                },
                "targets": [
                    {"what": t.what, "value": t.value, "most": t.most, "least": t.least, "holds": t.holds}
                    for t in finding.targets
                ],
            }
            for name, finding in findings.items()
        },
    }
