"""`rvq hostile`: the real dispatcher among receivers that do everything a receiver should not."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.hostile import ALL, BY_NAME, Behaviour
from bench.hostile.findings import Finding, Row, judge_memory
from bench.hostile.healthy import HealthyHost
from bench.hostile.memory import MemoryPeak
from bench.hostile.receivers import listening
from bench.hostile.scenes import HEALTHY, Play, black_hole_and_drips, crowd, every_behaviour
from bench.hostile.stage import stage
from rvq.errors import CommandError

STOP_SLACK = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("only", nargs="*", metavar="BEHAVIOUR", help="these alone (default: all)")
    parser.add_argument("--deadline", type=float, default=15.0, help="seconds for an attempt (15)")
    parser.add_argument("--rate", type=float, default=20.0, help="tasks a second, healthy host (20)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the scene with the black hole; 0: without (60)"
    )
    parser.add_argument("--list", action="store_true", help="tell the behaviours and stop")


def run(arguments: argparse.Namespace) -> int:
    behaviours = _chosen(arguments.only)
    if arguments.list:
        print("\n".join(behaviours))
        return 0
    logs = Path(tempfile.mkdtemp(prefix="rvq-hostile-"))
    print(
        f"{len(behaviours)} behaviours, {arguments.deadline:g} s for an attempt; logs in {logs}", flush=True
    )
    rows, findings = _play(behaviours, arguments, logs)
    _print(rows, findings)
    faults = sum(bool(row.faults) for row in rows) + sum(not finding.holds for finding in findings)
    if faults:
        raise CommandError(f"FAIL: {faults} of the bounds above do not hold; logs in {logs}")
    print("PASS")
    return 0


def _chosen(only: list[str]) -> dict[str, Behaviour]:
    known = {**ALL, **BY_NAME}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise CommandError(f"no such behaviour: {', '.join(unknown)}; rvq hostile --list tells them")
    return {name: known[name] for name in only} or known


def _play(
    behaviours: Mapping[str, Behaviour], arguments: argparse.Namespace, folder: Path
) -> tuple[list[Row], list[Finding]]:
    host = HealthyHost()
    others = {HEALTHY: Behaviour(host.serve, ("delivered",)), **(crowd() if arguments.seconds else {})}
    with listening({**behaviours, **others}, folder) as listeners:
        with stage(listeners, arguments.deadline, folder) as running:
            play = Play(running, listeners, host, arguments.rate)
            play.warm_up()
            memory = MemoryPeak(running.dispatcher.pid)
            rows, finding = every_behaviour(play, behaviours, arguments.deadline)
            findings = [finding]
            if arguments.seconds:
                findings.append(black_hole_and_drips(play, arguments.seconds))
            findings.append(judge_memory(memory.grown()))
            began = time.monotonic()
            status = running.dispatcher.stop(arguments.deadline + STOP_SLACK)
            findings.append(_judge_stop(status, time.monotonic() - began, arguments.deadline))
        trapped = listeners.trapped()
        findings.append(Finding("inward addresses", f"{trapped} connections", "0", trapped == 0))
    return rows, findings


def _judge_stop(status: int, seconds: float, deadline: float) -> Finding:
    """While receivers still drip: the attempts that run end, and are recorded."""
    bound = deadline + STOP_SLACK
    return Finding("stop", f"status {status} after {seconds:.1f} s", f"0, {bound:g} s", status == 0)


def _print(rows: list[Row], findings: list[Finding]) -> None:
    width = max(len(row.name) for row in rows)
    for row in rows:
        verdict = "; ".join(row.faults) or "ok"
        print(f"{row.name:{width}}  {row.outcome:14} {row.seconds:8.3f} s  {verdict}")
    longest = max(row.seconds for row in rows)
    print(f"\nlongest attempt {longest:.3f} s")
    for finding in findings:
        print(f"{finding.name}: {finding.seen} (bound: {finding.bound})  {'ok' if finding.holds else 'FAIL'}")
