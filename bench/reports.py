"""Results are written as NAME.md to read, NAME.json with every run, and NAME-PLOT.svg for each plot."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

from app.paths import ROOT

RESULTS = ROOT / "bench" / "results"


def write_files(
    folder: Path, name: str, markdown: str, document: object, plots: Mapping[str, str] | None = None
) -> Path:
    """Write all files into `folder`; return the Markdown's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for plot, svg in (plots or {}).items():
        (folder / f"{name}-{plot}.svg").write_text(svg)
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    report = folder / f"{name}.md"
    report.write_text(markdown)
    return report


def when_and_where(about: Mapping[str, object]) -> str:
    """Return the day, and what is known of the machine."""
    facts = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in about.items())
    return f"{time.strftime('%Y-%m-%d', time.gmtime())}; {facts}."


def part_of_it(factor: float) -> str:
    """Return a warning unless the measurement was a full one."""
    return "" if factor == 1 else f" **Size factor {factor:g}: not the full measurement.**"
