"""The dashboard shows metrics that exist, in panels that do not overlap."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tests.deploy.metrics import exported, unknown
from tests.support.source import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/rvq.json").read_text())
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]
COLUMNS = 24


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_asks_for_what_is_exported(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        assert list(unknown(target["expr"])) == []
        for opening, closing in ("()", "[]", "{}"):
            assert target["expr"].count(opening) == target["expr"].count(closing)


def test_labels_in_a_legend_are_left_by_the_expression() -> None:
    for target in itertools.chain.from_iterable(panel["targets"] for panel in PANELS):
        legend = target["legendFormat"]
        if legend.startswith("{{"):
            assert legend.strip("{}") in target["expr"].partition("by (")[2].partition(")")[0]


def test_panels_have_ids_of_their_own_and_stand_side_by_side() -> None:
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
            )
        )
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= COLUMNS
        taken |= cells


def test_every_metric_is_on_the_dashboard_or_in_an_alert_or_left_out_on_purpose() -> None:
    shown = json.dumps(DASHBOARD) + (ROOT / "deploy/prometheus/alerts.yml").read_text()
    families = {
        name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in exported()
    }
    left_out = {
        "rvq_tasks",
        "rvq_deliveries",
        "rvq_deliveries_in_flight",
        "rvq_delivery_phase_seconds",
        "rvq_maintenance_done_total",
        "rvq_maintenance_duration_seconds",
        "rvq_table_bytes",
    }
    assert {name for name in families if name not in shown} - left_out == set()
