"""`rvq demo`: the whole path on this machine, from POST to verified webhook."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from rvq.errors import CommandError

HELP = "run the whole path on this machine over real files, with one worker killed half-way"
SUMMARY = """
{verdict}
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
    """It has none: it makes all that it needs."""


def run(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    try:
        from rvq.demo import inputs, stage, story
    except ModuleNotFoundError as error:
        raise CommandError(f"the demo needs {error.name}: pip install 'rvq[demo]'") from error
    started = time.monotonic()
    logs = Path(tempfile.mkdtemp(prefix="rvq-demo-"))
    files = inputs.standard_library()
    print(f"starting PostgreSQL, API, dispatcher and {stage.WORKERS} workers; logs in {logs}")
    with stage.stage(logs) as running:
        outcome = story.play(running, files)
    if outcome.problems or outcome.found is None:
        shown = "\n  - ".join(outcome.problems[:20])
        raise CommandError(f"the demo failed ({len(outcome.problems)} problems), see {logs}\n  - {shown}")
    print(
        SUMMARY.format(
            verdict=f"PASS: task {outcome.task_id} succeeded",
            **vars(outcome.found),
            killed=outcome.killed,
            orphans=len(outcome.orphans),
            webhook_id=outcome.webhook_id,
            task_seconds=outcome.seconds,
            seconds=time.monotonic() - started,
            logs=logs,
        )
    )
    return 0
