"""The alert rules speak of metrics that exist, and every rule says what to do."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from app.web.problems import all_problems
from app.webhooks.outcomes import OUTCOMES
from dispatcher.maintenance import STEPS
from tests.deploy.metrics import exported, unknown
from tests.support.source import ROOT

FILE = ROOT / "deploy/prometheus/alerts.yml"
RULE = re.compile(r"^      - alert: (\w+)\n((?:^        .*\n)+)", re.MULTILINE)


class Rule(NamedTuple):
    """`text` is all of it but the name."""

    name: str
    text: str

    @property
    def expression(self) -> str:
        found = re.search(r"^        expr: (.+)$", self.text, re.MULTILINE)
        assert found, self.name
        return found.group(1)


RULES = [Rule(*found) for found in RULE.findall(FILE.read_text())]


def test_every_rule_of_the_file_is_looked_at() -> None:
    assert len(RULES) == FILE.read_text().count("- alert:") > 15
    assert len({rule.name for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_asks_for_what_is_exported_and_says_what_to_do(rule: Rule) -> None:
    assert list(unknown(rule.expression)) == []
    assert re.search(r"^        labels: \{severity: (page|ticket)\}$", rule.text, re.MULTILINE)
    for what in ("summary", "action"):
        assert re.search(rf"^          {what}: \S", rule.text, re.MULTILINE)
    for opening, closing in ("()", "[]", "{}"):
        assert rule.expression.count(opening) == rule.expression.count(closing)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_values_that_a_rule_asks_for_can_come(rule: Rule) -> None:
    values = {
        "code": {kind.code for kind in all_problems()},
        "outcome": {*OUTCOMES, "stale"},
        "step": {step.name for step in STEPS},
        "status": {"dead", "delivered"},
        "call": {"complete", "heartbeat", "release"},
    }
    for label, known in values.items():
        for operator, found in re.findall(rf'\b{label}(=~|=)"([^"]*)"', rule.expression):
            assert set(found.split("|") if operator == "=~" else [found]) <= known


def test_labels_that_a_summary_shows_are_left_by_the_expression() -> None:
    for rule in RULES:
        shown = set(re.findall(r"\$labels\.([a-z_]+)", rule.text))
        left = {
            word for group in re.findall(r"by \(([^)]*)\)", rule.expression) for word in group.split(", ")
        }
        assert shown <= left, rule.name


def test_the_check_finds_what_is_not_exported() -> None:
    wrong = 'sum by (nobody) (rate(rvq_no_such_total{code="x"}[5m])) + rvq_tasks{colour="red"}'
    assert set(unknown(wrong)) == {
        "rvq_no_such_total",
        "rvq_no_such_total{code}",
        "rvq_tasks{colour}",
        "nobody",
    }
    assert {"rvq_tasks", "rvq_http_request_seconds_bucket", "rvq_counter_drift"} <= exported().keys()
