"""`python -m bench.peers` runs RVQ and other task queues in turns: the same work on one PostgreSQL."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.peers.report import not_run, write_report
from bench.peers.rounds import Size, run_rounds
from bench.peers.system import System, SystemResult
from bench.peers.systems import SYSTEMS
from bench.postgres import bench_cluster
from bench.procfs import machine
from bench.reports import RESULTS


def main(argv: list[str] | None = None) -> int:
    """Return 1 when RVQ, or a system that was named, was not measured to the end."""
    options = _options(argv)
    size = Size(options.rounds, options.size)
    about: dict[str, object] = machine()
    with bench_cluster() as cluster:
        results = run_rounds(cluster, chosen(options.only), size, partial(print, flush=True))
        about["postgresql"] = cluster.install.version
    report = write_report(results, size, about, options.results)
    print(f"\n{report.read_text()}\nwritten to {report}")
    for line in not_run(results):
        print(line, file=sys.stderr)
    return exit_status(results, options.only)


def chosen(names: Sequence[str]) -> list[System]:
    """Return the named systems in their usual order; all when none is named."""
    return [system for system in SYSTEMS if not names or system.name in names]


def exit_status(results: Sequence[SystemResult], named: Sequence[str]) -> int:
    needed = {*named, "rvq"}
    return int(any(one.trouble and one.system.name in needed for one in results))


def _names(text: str) -> list[str]:
    """Parse the names of systems. Raises ArgumentTypeError."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [system.name for system in SYSTEMS]
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(
            f"no such system: {', '.join(unknown)}; there are {', '.join(known)}"
        )
    return names


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=float, default=1.0, help="1 is the full measurement")
    parser.add_argument("--only", type=_names, default=[], help="systems, separated by commas")
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
