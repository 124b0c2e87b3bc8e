"""The comparison of a claim over HTTP with the same function alone, in seconds."""

from __future__ import annotations

import pytest

from bench.micro.overhead import BY_PGBENCH, NO_OP, OVER_HTTP, main


def test_the_overhead_of_the_api_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--claims", "400", "--runs", "1", "--connections", "4"]) in (0, 1)
    told = capsys.readouterr().out
    figures = {name: [float(word) for word in _cells(told, name)] for name in (OVER_HTTP, BY_PGBENCH, NO_OP)}
    api, postgres, _ = figures[OVER_HTTP]
    assert api > 0
    assert postgres > 0
    assert "at most 2.5" in told


def _cells(told: str, name: str) -> list[str]:
    (line,) = [line for line in told.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip().replace(" ", "") for cell in line.split("|")[2:-1]]
