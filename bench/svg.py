"""Plots are SVG text drawn by pygal: lines over x, and bars by group."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from pygal import XY, Bar, Config, PluginImportFixer
from pygal.graph.graph import Graph
from pygal.style import Style

from bench.stats import written

COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
# pygal adds a hook of a form that importlib has given up, and that pytest does not bear.
sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, PluginImportFixer)]

LOOK = {
    "font_family": "system-ui, sans-serif",
    **{f"{text}_font_size": 11 for text in ("label", "major_label", "legend", "value")},
    "title_font_size": 14,
    **dict.fromkeys(("guide_stroke_color", "major_guide_stroke_color"), "#cbd5e1"),
    **dict.fromkeys(("background", "plot_background"), "white"),
    **dict.fromkeys(("opacity", "stroke_opacity"), "1"),
    "stroke_width": "1.6",
}
CONFIG = Config(
    width=760,
    height=320,
    include_x_axis=True,
    max_scale=8,
    truncate_legend=-1,
    truncate_label=-1,
    value_formatter=written,
    x_value_formatter=written,
    js=[],
    disable_xml_declaration=True,
)
BAND, LIMIT = "#e2e8f0", "#334155"
Point = tuple[float, float]


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[Point]],
    *,
    limit: float | None = None,
    bands: Mapping[str, Point] | None = None,
) -> str:
    """Draw lines through points; `limit` is a dashed horizontal line, `bands` are shaded stretches of x."""
    lines = {name: [point for point in line if not math.isnan(point[1])] for name, line in series.items()}
    points = [point for line in lines.values() for point in line]
    x_low, x_high = min((x for x, _ in points), default=0), max((x for x, _ in points), default=1)
    y_high = max([y for _, y in points] + [limit or 0])
    colours = [*[BAND] * len(bands or {}), *[LIMIT] * (limit is not None), *COLOURS]
    chart = _chart(XY, title, y_label, colours, x_title=x_label, show_dots=False)
    for name, (low, high) in (bands or {}).items():
        chart.add(name, [(low, y_high), (high, y_high)], fill=True, stroke_style={"width": 0})
    if limit is not None:
        chart.add("limit", [(x_low, limit), (x_high, limit)], stroke_style={"dasharray": "6, 4"})
    for name, line in lines.items():
        chart.add(name, line)
    return _drawn(chart)


def bar_chart(title: str, y_label: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Draw for each group a bar for each name in it; the names share a legend, each bar says its value."""
    names = dict.fromkeys(name for bars in groups.values() for name in bars)
    chart = _chart(Bar, title, y_label, COLOURS, print_values=True, print_values_position="top")
    chart.x_labels = list(groups)
    for name in names:
        values = (bars.get(name, math.nan) for bars in groups.values())
        chart.add(name, [None if math.isnan(value) else value for value in values])
    return _drawn(chart)


def _chart(kind: type[Graph], title: str, y_label: str, colours: Iterable[str], **more: object) -> Graph:
    chart = kind(CONFIG, title=title, y_title=y_label, **more)
    chart.style = Style(colors=tuple(colours), **LOOK)
    # Its styles go by this id: by default another at each run.
    chart.uuid = re.sub(r"\W+", "-", title)
    return chart


def _drawn(chart: Graph) -> str:
    """Return the SVG without scripts, and without comments, which have the date."""
    return re.sub(r"<script.*?</script>|<!--.*?-->", "", str(chart.render()), flags=re.DOTALL) + "\n"
