"""Every scenario of bench/core, in a size that takes seconds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.core import scripts
from bench.core.__main__ import main
from bench.core.finding import Finding, Size, Target
from bench.core.measured_database import MeasuredDatabase
from bench.core.pgbench import Load, PgbenchError, run_pgbench
from bench.core.report import write_report
from bench.core.sample import FIGURES, Sample, median
from bench.core.scenarios import SCENARIOS
from bench.postgres import deployed_settings, wal_budget
from bench.stats import alternate
from rvq.embedded import Cluster, throwaway_cluster

TINY = Size(factor=0.0001, runs=1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with throwaway_cluster() as cluster:
        yield cluster


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_measures_and_is_written(cluster: Cluster, tmp_path: Path, name: str) -> None:
    finding = SCENARIOS[name](cluster, TINY)
    report = write_report({name: finding}, TINY, {"cores": 2}, tmp_path)
    for runs in finding.samples.values():
        assert all(run.transactions > 0 and run.wal_bytes > 0 for run in runs)
        assert all(not math.isnan(median(runs, figure)) for figure in finding.shown)
    assert finding.targets
    assert finding.question in report.read_text()
    assert "not the full measurement" in report.read_text()
    assert {path.name for path in tmp_path.glob("*.svg")} == {
        f"core-{name}-{plot}.svg" for plot in finding.plots
    }
    written = json.loads((tmp_path / "core.json").read_text())
    assert set(written["scenarios"][name]["runs"]) == set(finding.samples)


def test_a_whole_life_finishes_the_task_and_writes_its_event(cluster: Cluster) -> None:
    database = MeasuredDatabase(cluster, "whole_life")
    sample = database.run(Load(scripts.life(2), clients=2, transactions=3), sub_tasks=2)
    counted = database.execute(
        "SELECT (SELECT count(*) FROM rvq.events WHERE status = 'succeeded'),"
        " (SELECT count(*) FROM rvq.outcomes), (SELECT count(*) FROM rvq.due_deliveries)"
    )
    assert counted == [(6, 12, 6)]
    assert (sample.transactions, sample.sub_tasks) == (6, 12)
    assert sample.commits >= 18


def test_steady_keeps_the_backlog_and_looks_at_claims_and_completes_only(cluster: Cluster) -> None:
    database = MeasuredDatabase(cluster, "steady")
    database.fill_queue(100, per_task=10)
    sample = database.run(Load(scripts.steady(10), clients=2, transactions=8, turns=True), sub_tasks=5)
    assert database.execute("SELECT count(*) FROM rvq.open_sub_tasks") == [(100,)]
    assert (sample.transactions, len(sample.latencies), sample.sub_tasks) == (16, 8, 80)


def test_history_is_made_by_the_functions_themselves(cluster: Cluster) -> None:
    database = MeasuredDatabase(cluster, "history_made")
    # More than what the clients claim: some of it is left when each has had its turn.
    database.fill_queue(1_500, per_task=10)
    database.finish_many(4_000)
    finished = "SELECT (SELECT count(*) FROM rvq.outcomes), (SELECT count(*) FROM rvq.open_sub_tasks)"
    assert database.execute(finished) == [(5_500, 0)]


def test_a_script_that_fails_is_an_error(cluster: Cluster) -> None:
    database = MeasuredDatabase(cluster, "failing")
    with pytest.raises(PgbenchError, match="does_not_exist"):
        run_pgbench(cluster, database.name, Load("SELECT rvq.does_not_exist();\n", clients=1, transactions=1))


def test_variants_alternate() -> None:
    order: list[str] = []

    def run(name: str) -> Sample:
        order.append(name)
        return Sample(1, 1, 1.0, [0.001], [], 0.1, 0.1, 10, 0, 1)

    measured = alternate(2, {"a": lambda: run("a"), "b": lambda: run("b")})
    assert order == ["a", "b", "a", "b"]
    assert {name: len(runs) for name, runs in measured.items()} == {"a": 2, "b": 2}
    assert set(measured["a"][0].figures()) == set(FIGURES)


@pytest.mark.parametrize(
    ("target", "holds"),
    [
        (Target("x", 1.2, most=1.15), False),
        (Target("x", 1.1, most=1.15), True),
        (Target("x", 1999, least=2000), False),
        (Target("x", 1), None),
    ],
)
def test_a_target_holds_or_not(target: Target, holds: bool | None) -> None:
    assert target.holds is holds


def test_a_missed_target_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = Finding("?", {"a": [Sample(1, 1, 1.0, [0.1], [], 0, 0, 0, 0, 0)]}, (), [Target("x", 2, most=1)])
    monkeypatch.setitem(SCENARIOS, "fan-in", lambda *_: missed)
    options = ["--scenario", "fan-in", "--results", str(tmp_path)]
    assert main(options) == 1
    assert main([*options, "--no-targets"]) == 0
    assert "**MISSED**" in capsys.readouterr().out


def test_the_server_has_the_deployed_settings_and_a_budget_that_fits_the_disk() -> None:
    assert deployed_settings()["synchronous_commit"] == "on"
    assert 1 <= int(wal_budget()["max_wal_size"].removesuffix("GB")) <= 32
