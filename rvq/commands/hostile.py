"""`rvq hostile` runs the hostile suite of a checkout; an installed RVQ does not carry it."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Mapping
from types import ModuleType

from app.paths import ROOT
from rvq.errors import CommandError

# By name: the suite uses `rvq.local`, so nothing in `rvq` may import it.
SUITE = "bench.hostile.command"
HELP = "run the real dispatcher against hostile receivers on this machine, and check its bounds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    if suite := _suite():
        suite.add_arguments(parser)


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    suite = _suite()
    if suite is None:
        raise CommandError(
            "the hostile suite is in bench/ of a checkout; the installed package is without it"
        )
    return int(suite.run(arguments))


def _suite() -> ModuleType | None:
    """Return the suite's module; None outside a checkout."""
    if not (ROOT / SUITE.partition(".")[0]).is_dir():
        return None
    # An editable install finds the packages of the wheel alone.
    sys.path.append(str(ROOT))
    return importlib.import_module(SUITE)
