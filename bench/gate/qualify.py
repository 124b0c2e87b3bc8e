"""One qualification is a fresh RVQ, the load and the report; a search finds the highest rate that passes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.paths import ROOT
from bench.gate.monitor import Look, Monitor, machine_figures
from bench.gate.page import html, markdown
from bench.gate.stack import GateStack, whole_stack
from bench.procfs import machine
from bench.reports import write_files
from rvq.local.processes import Process
from rvq.local.stack import DATABASE, python

LOCUSTFILE = ROOT / "bench" / "locustfile.py"
# Longer than any run that ends by itself.
RUN_SECONDS = 3600.0


@dataclass(frozen=True)
class Qualification:
    status: int
    document: dict[str, Any]
    looks: Sequence[Look]

    @property
    def passed(self) -> bool:
        return self.status == 0 and bool(self.document["passed"])


def qualify(options: Sequence[str], results: Path, name: str) -> Qualification:
    """Run the gate on a stack of its own and write NAME.json, NAME.md and NAME.html into `results`.

    Of a run that failed, the logs of the API, dispatcher and receiver too.
    """
    results.mkdir(parents=True, exist_ok=True)
    with whole_stack() as stack:
        found = run_generator(stack, options, results / f"{name}.json")
        for log in [] if found.passed else stack.rvq.folder.glob("*.log"):
            shutil.copy(log, results / f"{name}-{log.name}")
    write_files(results, name, markdown(found.document), found.document)
    (results / f"{name}.html").write_text(html(found.document, found.looks))
    return found


def run_generator(stack: GateStack, options: Sequence[str], result: Path) -> Qualification:
    """Run locust against the stack, its output beside the result, and watch the machine meanwhile."""
    result.unlink(missing_ok=True)
    command = python("locust", "-f", str(LOCUSTFILE), "--assert-slo", "--result", str(result))
    about = machine()
    generator = Process(
        "the generator", [*command, *options], {**os.environ, **stack.environ}, log=result.with_suffix(".log")
    )
    try:
        monitor = Monitor(
            stack.cluster.url(DATABASE, tcp=False), {**stack.pids(), "generator": generator.pid}
        )
        with monitor.watching():
            status = generator.wait(RUN_SECONDS)
    finally:
        generator.stop(deadline_seconds=5)
    return Qualification(status, _document(result, about, monitor.looks), monitor.looks)


def _document(result: Path, about: dict[str, object], looks: Sequence[Look]) -> dict[str, Any]:
    """Return what the generator wrote, with the machine's part added."""
    if not result.exists():
        check = {"name": "generator", "holds": False, "found": "wrote no result"}
        return {"passed": False, "checks": [check]}
    document: dict[str, Any] = json.loads(result.read_text())
    document["about"] = about
    if "measured" in document:
        tasks = document["measured"]["streams"]["create"]["answered"]
        document["machine"] = machine_figures(looks, tuple(document["window"]), tasks)
    return document


def search(passes: Callable[[float], bool], low: float, high: float, step: float) -> float:
    """Return the highest rate between the two that passes, to `step`; 0 when `low` does not.

    `high` is taken as failing unless it is tried and passes.
    """
    if not passes(low):
        return 0.0
    if passes(high):
        return high
    while high - low > step:
        middle = round((low + high) / 2)
        if passes(middle):
            low = middle
        else:
            high = middle
    return low
