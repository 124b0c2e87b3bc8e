"""The whole of `make gate`, in seconds: a stack of its own, the load, the report."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from bench.gate.__main__ import main
from bench.gate.monitor import Look, inside, machine_figures
from tests.bench.gate.runs import WIDE


def test_a_qualification_writes_its_report(tmp_path: Path) -> None:
    budgets = [word for name, value in WIDE.items() for word in ("--budget", f"{name}={value}")]
    short = ["--rate", "20", "--warmup", "1", "--duration", "4", "--results", str(tmp_path)]
    assert main([*short, *budgets]) == 0
    document = json.loads((tmp_path / "gate-20.json").read_text())
    assert document["passed"]
    assert logs_in(tmp_path) == set()
    machine = document["machine"]
    assert set(machine["cpu_us_per_task"]) == {"API", "PostgreSQL", "dispatcher", "receiver", "generator"}
    assert machine["connections_at_start"]["rvq-api"] == 32
    assert machine["wal_bytes_per_task"] > 500
    assert machine["deadlocks"] == 0
    assert "# Gate: PASS at 20 a second" in (tmp_path / "gate-20.md").read_text()
    page = (tmp_path / "gate-20.html").read_text()
    plots = [part.partition("</svg>")[0] + "</svg>" for part in page.split("<svg")[1:]]
    assert len(plots) >= 8
    assert all(ElementTree.fromstring("<svg" + plot) is not None for plot in plots)


def test_a_generator_that_writes_no_result_has_failed(tmp_path: Path) -> None:
    """Locust refuses the option, long before there is anything to judge."""
    assert main(["--rate", "20", "--results", str(tmp_path), "--no-such-option"]) != 0
    assert "generator" in (tmp_path / "gate-20.md").read_text()
    assert logs_in(tmp_path) == {f"gate-20-{part}.log" for part in ("api", "dispatcher", "receiver")}


def logs_in(folder: Path) -> set[str]:
    """Of the parts of RVQ; the generator's own is there in any case."""
    return {path.name for path in folder.glob("gate-20-*.log")}


def look(at: float, cpu: float, wal: int) -> Look:
    return Look(at, {"API": cpu}, {"API": 1000}, {"rvq-api": 32}, wal, 0, 0)


def test_cpu_and_wal_count_over_the_window_alone() -> None:
    looks = [
        look(0, 0.0, 0),
        look(10, 1.0, 100),
        look(15, 2.0, 600),
        look(20, 3.0, 1100),
        look(30, 9.0, 9000),
    ]
    assert [seen.at for seen in inside(looks, (10, 20))] == [10, 15, 20]
    figures = machine_figures(looks, (10, 20), tasks=1000)
    assert figures["cpu_us_per_task"] == {"API": 2000.0}
    assert figures["cores"] == {"API": 0.2}
    assert figures["wal_bytes_per_task"] == 1.0
    assert machine_figures(looks, (40, 50), tasks=1000) == {}
