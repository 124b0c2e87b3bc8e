"""Runs of the real gate against a real RVQ, in seconds; budgets are wide where a test is not about them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gate.qualify import LOCUSTFILE
from bench.gate.stack import GateStack

WIDE = {
    "http_p99_ms": 8_000,
    "webhook_lag_p99_ms": 60_000,
    "generator_late_p99_ms": 8_000,
    "reached_share": 0.5,
}
RATE, DURATION = 20, 2


@dataclass(frozen=True)
class GateRun:
    status: int
    document: dict[str, Any]
    output: str

    @property
    def failed(self) -> set[str]:
        return {check["name"] for check in self.document["checks"] if not check["holds"]}

    def found(self, name: str) -> str:
        (text,) = [check["found"] for check in self.document["checks"] if check["name"] == name]
        return str(text)


def run_gate(
    stack: GateStack,
    *options: str,
    environ: Mapping[str, str] | None = None,
    budgets: Mapping[str, float] | None = None,
    meanwhile: Callable[[], None] | None = None,
    locustfile: Path = LOCUSTFILE,
    duration: float = DURATION,
    asserting: bool = True,
) -> GateRun:
    """A cold, short run; `meanwhile` is called as soon as the process has been started."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        allowed = {**WIDE, **(budgets or {})}
        command = [sys.executable, "-m", "locust", "-f", str(locustfile)]
        command += ["--result", str(result), *(["--assert-slo"] if asserting else [])]
        command += ["--rate", str(RATE), "--warmup", "1", "--duration", str(duration), "--drain", "20"]
        command += [word for name, value in allowed.items() for word in ("--budget", f"{name}={value}")]
        process = subprocess.Popen(
            [*command, *options],
            env={**os.environ, **stack.environ, **(environ or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            if meanwhile:
                meanwhile()
            output, _ = process.communicate(timeout=120)
        finally:
            process.kill()
        document = json.loads(result.read_text()) if result.exists() else {"passed": False, "checks": []}
        return GateRun(process.returncode, document, output)
