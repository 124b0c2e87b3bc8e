"""What bench/peers makes of its figures: order, medians, claims, report, exit status."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from bench.peers.__main__ import chosen, exit_status, main
from bench.peers.claims import check_claims, fan_in_ms, single_calls, throughput, told
from bench.peers.drivers.lines import PAYLOAD_BYTES, payload, slices
from bench.peers.report import markdown, write_report
from bench.peers.rounds import Size, order_of_round
from bench.peers.system import System, SystemResult, Turn
from bench.peers.systems import SYSTEMS
from tests.support.source import ROOT

BY_NAME = {system.name: system for system in SYSTEMS}
CPU = {"PostgreSQL": 30.0, "the rest": 20.0}


def result(name: str, *turns: tuple[float, list[float]], trouble: str | None = None) -> SystemResult:
    """`turns`: throughput, and seconds to each callback."""
    return SystemResult(BY_NAME[name], [Turn(rate, waits, {}, CPU) for rate, waits in turns], trouble=trouble)


def claims(results: list[SystemResult]) -> list[str]:
    return told(check_claims(results))


def systems(count: int) -> list[System]:
    return list(SYSTEMS[:count])


def test_every_system_has_a_turn_in_each_round_and_each_begins_one() -> None:
    three = systems(3)
    orders = [order_of_round(three, number) for number in range(3)]
    assert all(sorted(s.name for s in order) == sorted(s.name for s in three) for order in orders)
    assert [order[0] for order in orders] == three


def test_figures_are_medians_of_the_rounds() -> None:
    measured = result("pgqueuer", (100, [0.010] * 99 + [0.5]), (300, [0.020] * 100), (200, [0.030] * 100))
    assert throughput(measured) == 200
    assert fan_in_ms(measured, 0.5) == pytest.approx(20)
    assert fan_in_ms(measured, 0.99) == pytest.approx(20)
    assert math.isnan(throughput(result("pgqueuer", trouble="not here")))


def test_single_calls_are_medians_too() -> None:
    turns = [Turn(1, [1], {"create": rate}) for rate in (1.0, 5.0, 3.0)]
    assert single_calls(SystemResult(BY_NAME["rvq"], turns)) == {"create": 3.0}
    assert single_calls(result("celery")) == {}


def test_the_claims_name_the_best_python_peer_and_the_quickest_peer() -> None:
    found = claims(
        [
            result("rvq", (30_000, [0.020])),
            result("rvq-sdk", (1, [9])),
            result("pgqueuer", (14_000, [0.060])),
            result("graphile", (90_000, [0.050])),
        ]
    )
    assert found == [
        "(a) at least 2 times the best Python peer: 2.14 times, 30 000 to 14 000 a second (PgQueuer): holds",
        "(b) fan-in p99 below every peer's: 20 ms, the best peer's 50 ms (Graphile Worker): holds",
    ]


def test_a_claim_that_does_not_hold_is_missed() -> None:
    found = claims([result("rvq", (20_000, [0.05])), result("pgqueuer", (14_000, [0.04]))])
    assert [line.rpartition(": ")[2] for line in found] == ["**MISSED**", "**MISSED**"]


def test_nothing_is_claimed_without_rvq_or_without_peers() -> None:
    peer = result("pgqueuer", (14_000, [0.06]))
    assert claims([peer]) == []
    assert claims([result("rvq", (1, [1])), result("pgqueuer", trouble="no node")]) == []
    only_node = claims([result("rvq", (1, [1])), result("pgboss", (1, [2]))])
    assert [line[:3] for line in only_node] == ["(b)"]


@pytest.mark.parametrize(
    ("troubled", "named", "status"),
    [
        ("pgboss", [], 0),
        ("pgboss", ["rvq"], 0),
        ("pgboss", ["pgboss"], 1),
        ("rvq", [], 1),
        ("rvq", ["rvq", "pgboss"], 1),
    ],
)
def test_the_exit_status_is_that_of_rvq_and_of_whoever_was_named(
    troubled: str, named: list[str], status: int
) -> None:
    results = [result(name, trouble="no" if name == troubled else None) for name in ("rvq", "pgboss")]
    assert exit_status(results, named) == status


def test_all_are_chosen_unless_some_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert chosen([]) == list(SYSTEMS)
    assert [system.name for system in chosen(["celery", "rvq"])] == ["rvq", "celery"]
    with pytest.raises(SystemExit):
        main(["--only", "rvq,sidekiq"])
    assert "no such system: sidekiq" in capsys.readouterr().err


def test_the_report_has_every_system_whether_it_ran_or_not(tmp_path: Path) -> None:
    results = [
        result("rvq", (30_000, [0.02])),
        result("pgqueuer", (14_000, [0.06]), trouble="failed in round 2: it ended"),
        result("pgboss", trouble="no node on this machine"),
    ]
    report = write_report(results, Size(1, 0.1), {"cores": 2}, tmp_path)
    text = report.read_text()
    assert "| RVQ over HTTP | 30 000 | 50 | 30 | 20 | 20 |" in text
    assert "- pg-boss: not run: no node on this machine\n" in text
    assert "- PgQueuer: not run: failed in round 2" in text
    assert "not the full measurement" in text
    assert "not the full measurement" not in markdown(results, Size(), {})
    document = json.loads((tmp_path / "peers.json").read_text())
    assert set(document["systems"]) == {"rvq", "pgqueuer", "pgboss"}
    for name in ("throughput", "fan-in"):
        svg = (tmp_path / f"peers-{name}.svg").read_text()
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert "pg-boss" not in svg


def test_payloads_are_of_one_size_and_slices_cover_everything() -> None:
    assert {len(json.dumps(payload(number))) for number in (0, 7, 123_456)} == {PAYLOAD_BYTES}
    assert slices(2_500, 1_000) == [range(1_000), range(1_000, 2_000), range(2_000, 2_500)]


def test_the_lock_of_the_node_peers_says_what_but_not_where_from() -> None:
    packages = json.loads((ROOT / "bench/peers/node/package-lock.json").read_text())["packages"]
    installed = {path: entry for path, entry in packages.items() if path}
    assert {"node_modules/pg-boss", "node_modules/graphile-worker"} <= set(installed)
    assert not [path for path, entry in installed.items() if "resolved" in entry]
    assert all(entry["integrity"] for entry in installed.values())
