"""`python -m bench.core` runs scenarios and writes what they found."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from bench.core.finding import Finding, Size
from bench.core.report import target_rows, write_report
from bench.core.scenarios import SCENARIOS
from bench.postgres import bench_cluster
from bench.procfs import machine
from bench.reports import RESULTS
from rvq.embedded import Cluster
from rvq.tables import markdown_table


def main(argv: list[str] | None = None) -> int:
    """Return 0 when every target holds (or --no-targets), 1 when one is missed."""
    options = _options(argv)
    if options.list:
        for name, scenario in SCENARIOS.items():
            print(f"{name:14} {scenario.__doc__}")
        return 0
    size = Size(options.size, options.runs)
    with bench_cluster(options.postgres) as cluster:
        about = {**machine(), "postgresql": _version(cluster)}
        findings = {name: _run(name, cluster, size) for name in options.scenario or SCENARIOS}
    report = write_report(findings, size, about, options.results)
    print(markdown_table(("scenario", "figure", "value", "target", ""), target_rows(findings)))
    print(f"written to {report}")
    missed = [target for finding in findings.values() for target in finding.targets if target.holds is False]
    return 1 if missed and not options.no_targets else 0


def _run(name: str, cluster: Cluster, size: Size) -> Finding:
    began = time.monotonic()
    print(f"{name} ...", end=" ", flush=True)
    finding = SCENARIOS[name](cluster, size)
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return finding


def _version(cluster: Cluster) -> str:
    program = str(cluster.install.program("postgres"))
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.core", description="The SQL functions by pgbench.")
    add = parser.add_argument
    add("--scenario", action="append", choices=SCENARIOS, help="only this one; may be repeated")
    add("--size", type=float, default=1.0, help="factor on counts and durations (1: all of it)")
    add("--runs", type=int, default=5, help="runs of each variant")
    add("--postgres", default="16", help="major version or folder of programs")
    add("--results", type=Path, default=RESULTS, help="folder to write to")
    add("--no-targets", action="store_true", help="exit 0 even when a target is missed")
    add("--list", action="store_true", help="list the scenarios")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
