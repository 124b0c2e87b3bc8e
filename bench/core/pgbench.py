"""pgbench runs a script; its log has every transaction's latency.

Statements are prepared, once in each session: the functions are measured, not the parsing of calls.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rvq.embedded import Cluster

PROCESSED = re.compile(r"number of transactions actually processed: (\d+)")
RATE = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
STATEMENT = re.compile(r"^ +([\d.]+) +\d+ +(\S.*)$", re.MULTILINE)


class PgbenchError(Exception):
    """pgbench did not run, or a client of it was aborted; the text is what it said."""


@dataclass(frozen=True)
class Load:
    """What pgbench is asked to do: for `seconds`, or `transactions` for each client.

    `rate`: transactions a second in all, on a schedule; None: as fast as they go.
    `turns`: keep only the latencies of even transactions of each client (see scripts.steady).
    `options`: settings of the sessions, such as {"synchronous_commit": "off"}.
    """

    script: str
    clients: int
    seconds: float = 0
    transactions: int = 0
    rate: float | None = None
    turns: bool = False
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PgbenchRun:
    """What pgbench measured.

    `latencies`: seconds, ascending. `statements`: mean milliseconds of each, in the script's order.
    """

    transactions: int
    per_second: float
    latencies: list[float]
    statements: list[tuple[str, float]]
    client_cpu_seconds: float


def run_pgbench(cluster: Cluster, database: str, load: Load) -> PgbenchRun:
    """Run the load to its end. Raises PgbenchError."""
    with tempfile.TemporaryDirectory(prefix="rvq-bench-") as name:
        folder = Path(name)
        (folder / "script.sql").write_text(load.script)
        options = " ".join(f"-c {name}={value}" for name, value in load.options.items())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = subprocess.run(
            _command(cluster, database, load, folder),
            env={**os.environ, "PGOPTIONS": options},
            capture_output=True,
            text=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if run.returncode or "aborted" in run.stderr:
            raise PgbenchError(run.stderr.strip()[-2000:])
        return PgbenchRun(
            transactions=int(_found(PROCESSED, run.stdout)),
            per_second=float(_found(RATE, run.stdout)),
            latencies=sorted(_latencies(folder, load.turns)),
            statements=[(text.strip()[:60], float(ms)) for ms, text in STATEMENT.findall(run.stdout)],
            client_cpu_seconds=after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        )


def _command(cluster: Cluster, database: str, load: Load, folder: Path) -> list[str]:
    amount = ["-t", str(load.transactions)] if load.transactions else ["-T", str(max(1, round(load.seconds)))]
    rate = ["-R", str(load.rate)] if load.rate else []
    threads = min(2, load.clients)
    return [
        str(cluster.install.program("pgbench")),
        *("-n", "-r", "-M", "prepared", "-c", str(load.clients), "-j", str(threads), "-D", "turn=0"),
        *(*amount, *rate, "--log", f"--log-prefix={folder}/log", "-f", f"{folder}/script.sql"),
        cluster.url(database, tcp=False),
    ]


def _latencies(folder: Path, turns: bool) -> Iterator[float]:
    """Read the log's lines: client, number of its transaction (from 1), microseconds, script, time."""
    for log in folder.glob("log.*"):
        for line in log.read_text().splitlines():
            _, number, microseconds, *_ = line.split()
            if not turns or int(number) % 2 == 0:
                yield int(microseconds) / 1e6


def _found(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    if not found:
        raise PgbenchError(f"pgbench said something else than expected:\n{text[-2000:]}")
    return found.group(1)
