"""`rvq demo` shows the whole path on this machine, from POST to verified webhook."""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rvq.errors import CommandError

# What the demo needs beside the package, and how it is installed.
INSTALL = {"standardwebhooks": "'rvq[demo]'", "worker_sdk": "rvq-worker-sdk"}
HELP = "run the whole path on this machine over real files, with one worker killed half-way"
SUMMARY = """
PASS: task {task_id} succeeded
  {files} files, {lines} lines, {words} words, {bytes} bytes;
  each result, and their sums, are as worked out without RVQ
  {killed} was killed; its {orphans} sub_tasks went to other workers when their leases ran out
  webhook {webhook_id}: one event, its signature verified with the standardwebhooks library
  {task_seconds:.1f} s from POST to webhook, {seconds:.1f} s in all

  what each process said   {logs}
  a stack that stays       rvq up
  how it works             README.md, DESIGN.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add none: the demo makes all that it needs."""


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    _require_packages()
    # Imported here: what they need may not be installed, and every other command would wait for them.
    from rvq.demo.inputs import standard_library
    from rvq.demo.stack import WORKERS, demo_stack
    from rvq.demo.story import play

    started = time.monotonic()
    logs = Path(tempfile.mkdtemp(prefix="rvq-demo-"))
    files = standard_library()
    print(f"starting PostgreSQL, API, dispatcher and {WORKERS} workers; logs in {logs}")
    with demo_stack(logs) as stack:
        result = play(stack, files)
    if result.problems or result.found is None:
        shown = "\n  - ".join(result.problems[:20])
        raise CommandError(f"the demo failed ({len(result.problems)} problems), see {logs}\n  - {shown}")
    print(
        SUMMARY.format(
            task_id=result.task_id,
            **vars(result.found),
            killed=result.killed,
            orphans=len(result.orphans),
            webhook_id=result.webhook_id,
            task_seconds=result.seconds,
            seconds=time.monotonic() - started,
            logs=logs,
        )
    )
    return 0


def _require_packages() -> None:
    for module, package in INSTALL.items():
        if importlib.util.find_spec(module) is None:
            raise CommandError(f"the demo needs {module}: pip install {package}")
