"""Percentiles, tables, plots and CPU figures that the benchmarks share."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.procfs import tree, tree_cpu_seconds, tree_memory_bytes
from bench.stats import percentile, written
from bench.svg import bar_chart, line_chart
from rvq.tables import markdown_table

VALUES = st.lists(st.floats(0, 1e6), min_size=1)


@given(VALUES, st.floats(0, 1))
def test_a_percentile_is_one_of_the_values_and_that_share_does_not_exceed_it(
    values: list[float], share: float
) -> None:
    found = percentile(sorted(values), share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-6


def test_percentiles_of_a_hundred_values_are_exact() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, share) for share in (0, 0.5, 0.99, 1)] == [1, 50, 99, 100]
    assert math.isnan(percentile([], 0.5))


@pytest.mark.parametrize(
    ("value", "text"), [(41234, "41 234"), (254.4, "254"), (0.012345, "0.0123"), (7.0, "7"), (math.nan, "-")]
)
def test_figures_are_written_with_what_they_mean(value: float, text: str) -> None:
    assert written(value) == text


def test_a_table_has_a_row_for_each_row() -> None:
    assert markdown_table(("a", "b"), [("x", "1")]) == "| a | b |\n|---|---:|\n| x | 1 |\n"


def test_plots_are_well_formed_whatever_their_texts_and_values() -> None:
    lines = {"<p99> & more": [(0.0, 1.0), (1.0, math.nan), (2.0, 3.0)], "none": []}
    drawn = line_chart("a < b", "s", "ms", lines, limit=100, bands={"warm-up": (0.0, 1.0)})
    bars = bar_chart("bars", "us", {"<api>": {"x": 1.0, "y": math.nan}, "postgres": {"y": 2.0}})
    for svg in (drawn, bars, line_chart("nothing", "", "", {}), bar_chart("nothing", "", {})):
        assert ElementTree.fromstring(svg).tag.endswith("svg")


def test_a_plot_is_the_same_each_time_and_loads_nothing() -> None:
    svg = line_chart("a", "s", "ms", {"p99": [(0.0, 1.0), (1.0, 2.0)]})
    assert svg == line_chart("a", "s", "ms", {"p99": [(0.0, 1.0), (1.0, 2.0)]})
    assert re.findall(r"<script|<!--|href|https?://(?!www\.w3\.org/)", svg) == []


def test_cpu_of_a_tree_counts_living_and_ended_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.2: pass\n"
    code = (
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n"
        "print('ended', flush=True)\ninput()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout
        assert child.stdin
        assert child.stdout.readline() == b"ended\n"
        assert tree_cpu_seconds(child.pid) >= 0.2
        assert child.pid in set(tree(os.getpid()))
        assert tree_memory_bytes(child.pid) > 1_000_000
        child.stdin.close()


def test_a_process_that_is_gone_has_used_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    assert (tree_cpu_seconds(child.pid), tree_memory_bytes(child.pid)) == (0.0, 0)
