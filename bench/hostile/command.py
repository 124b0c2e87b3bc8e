"""The command line of the suite: the real dispatcher among receivers that do what a receiver should not."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.checks import Check, failed
from bench.hostile import ALL, BY_NAME, Behaviour
from bench.hostile.checks import FirstAttempt, check_memory
from bench.hostile.healthy import HealthyHost
from bench.hostile.memory import MemoryPeak
from bench.hostile.receivers import listening
from bench.hostile.runs import HEALTHY, Suite, black_hole_and_drips, crowd, every_behaviour
from bench.hostile.stack import hostile_stack
from rvq.errors import CommandError
from rvq.local.processes import Process
from rvq.tables import table

STOP_SLACK = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("only", nargs="*", metavar="BEHAVIOUR", help="these alone (default: all)")
    parser.add_argument("--deadline", type=float, default=15.0, help="seconds for an attempt (15)")
    parser.add_argument("--rate", type=float, default=20.0, help="tasks a second, healthy host (20)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of the run with the black hole; 0: without (60)"
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
    attempts, checks = _run(behaviours, arguments, logs)
    _print(attempts, checks)
    faults = sum(bool(attempt.faults) for attempt in attempts) + len(failed(checks))
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


def _run(
    behaviours: Mapping[str, Behaviour], arguments: argparse.Namespace, folder: Path
) -> tuple[list[FirstAttempt], list[Check]]:
    host = HealthyHost()
    others = {HEALTHY: Behaviour(host.serve, ("delivered",)), **(crowd() if arguments.seconds else {})}
    with listening({**behaviours, **others}, folder) as listeners:
        with hostile_stack(listeners, arguments.deadline, folder) as rvq:
            suite = Suite(rvq, listeners, host, arguments.rate)
            suite.warm_up()
            memory = MemoryPeak(rvq.dispatcher.pid)
            attempts, check = every_behaviour(suite, behaviours, arguments.deadline)
            checks = [check]
            if arguments.seconds:
                checks.append(black_hole_and_drips(suite, arguments.seconds))
            checks.append(check_memory(memory.grown()))
            checks.append(_check_stop(rvq.dispatcher, arguments.deadline + STOP_SLACK))
        trapped = listeners.trapped()
        checks.append(Check("inward addresses", trapped == 0, f"{trapped} connections (bound: 0)"))
    return attempts, checks


def _check_stop(dispatcher: Process, bound: float) -> Check:
    """Stop it while receivers still drip: the attempts that run end, and are recorded."""
    began = time.monotonic()
    status = dispatcher.stop(bound)
    found = f"status {status} after {time.monotonic() - began:.1f} s (bound: 0, {bound:g} s)"
    return Check("stop", status == 0, found)


def _print(attempts: list[FirstAttempt], checks: list[Check]) -> None:
    rows = [(one.name, one.outcome, f"{one.seconds:.3f}", "; ".join(one.faults) or "ok") for one in attempts]
    print(table(("behaviour", "outcome", "seconds", ""), rows))
    print(f"\nlongest attempt {max(one.seconds for one in attempts):.3f} s")
    for check in checks:
        print(f"{check.name}: {check.found}  {check.mark}")
