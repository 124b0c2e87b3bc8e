"""`python -m bench.gate` runs the gate on this machine, or searches for the highest rate that passes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.gate.page import markdown
from bench.gate.qualify import Qualification, qualify, search
from bench.reports import RESULTS


def main(argv: list[str] | None = None) -> int:
    """Return 0 on PASS (search: when any rate passes)."""
    options, for_locust = _options(argv)
    if not options.search:
        found = _one(options.rate, for_locust, options.results)
        return 0 if found.passed else found.status or 1
    short = ["--warmup", str(options.search_warmup), "--duration", str(options.search_duration), *for_locust]
    bounds = (options.search_low, options.search_high, options.search_step)
    best = search(lambda rate: _one(rate, short, options.results).passed, *bounds)
    print(f"\nhighest rate that passes (to {options.search_step:g}): {best:g} a second")
    return 0 if best else 1


def _one(rate: float, for_locust: list[str], results: Path) -> Qualification:
    name = f"gate-{rate:g}"
    found = qualify(["--rate", str(rate), *for_locust], results, name)
    print(f"\n{markdown(found.document)}\nwritten to {results / name}.html", flush=True)
    return found


def _options(argv: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m bench.gate",
        description="Start a whole RVQ here and qualify it. Other options go to bench/locustfile.py.",
    )
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--search", action="store_true", help="find the highest rate that passes")
    parser.add_argument("--search-low", type=float, default=100)
    parser.add_argument("--search-high", type=float, default=1666)
    parser.add_argument("--search-step", type=float, default=25)
    parser.add_argument("--search-warmup", type=float, default=15)
    parser.add_argument("--search-duration", type=float, default=45)
    return parser.parse_known_args(argv)


if __name__ == "__main__":
    sys.exit(main())
