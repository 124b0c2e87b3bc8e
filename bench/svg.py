"""Plots are SVG text, with nothing to install: lines over x, and bars by group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench.stats import written

WIDTH, HEIGHT = 760, 320
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 56, 44
COLOURS = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f")
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
    points = [point for line in series.values() for point in line if not math.isnan(point[1])]
    if not points:
        return _frame(title, x_label, y_label, [], [])
    x_low, x_high = min(x for x, _ in points), max(x for x, _ in points)
    y_high = _ceiling(max([y for _, y in points] + ([limit] if limit else [])))
    x_span = (x_high - x_low) or 1.0

    def place(point: Point) -> Point:
        x = LEFT + (point[0] - x_low) / x_span * (WIDTH - LEFT - RIGHT)
        return x, _height(point[1], y_high)

    parts = _y_axis(y_high) + _x_axis(x_low, x_high)
    parts += [
        _band(name, place((low, 0))[0], place((high, 0))[0]) for name, (low, high) in (bands or {}).items()
    ]
    for colour, line in zip(_colours(len(series)), series.values(), strict=True):
        drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, line) if not math.isnan(y))
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
    if limit:
        y = _height(limit, y_high)
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" '
            'stroke="#dc2626" stroke-dasharray="6 4"/>'
        )
    return _frame(title, x_label, y_label, list(series), parts)


def bar_chart(title: str, y_label: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Draw for each group a bar for each name in it; the names share a legend, each bar says its value."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    values = [value for bars in groups.values() for value in bars.values() if not math.isnan(value)]
    y_high = _ceiling(max(values, default=1.0))
    room = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    bar = min(60.0, room * 0.8 / max(1, len(names)))
    parts = _y_axis(y_high)
    for place, (group, bars) in enumerate(groups.items()):
        middle = LEFT + room * (place + 0.5)
        parts.append(_text(middle, HEIGHT - BOTTOM + 16, group, "middle"))
        left = middle - bar * len(names) / 2
        for index, name in enumerate(names):
            value = bars.get(name, math.nan)
            if not math.isnan(value):
                parts += _bar(left + index * bar, bar, value, y_high, COLOURS[index % len(COLOURS)])
    return _frame(title, "", y_label, names, parts)


def _bar(x: float, width: float, value: float, y_high: float, colour: str) -> list[str]:
    top = _height(value, y_high)
    box = _box(x, top, width * 0.92, HEIGHT - BOTTOM - top, f'fill="{colour}"')
    return [box, _text(x + width * 0.46, top - 4, written(value), "middle", 10)]


def _band(name: str, left: float, right: float) -> str:
    height = HEIGHT - TOP - BOTTOM
    box = _box(left, TOP, right - left, height, 'fill="#94a3b8" opacity="0.18"')
    return box + _text(left + 4, TOP + 12, name, "start", 10)


def _frame(title: str, x_label: str, y_label: str, names: Sequence[str], parts: Sequence[str]) -> str:
    legend = []
    x = float(LEFT)
    for colour, name in zip(_colours(len(names)), names, strict=True):
        legend.append(f'<rect x="{x:.0f}" y="32" width="10" height="10" fill="{colour}"/>')
        legend.append(_text(x + 14, 41, name, "start", 11))
        x += 24 + 6.4 * len(name)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'<g transform="translate(14,{middle:.0f}) rotate(-90)">{_text(0, 0, y_label, "middle")}</g>'
    head = _text(LEFT, 20, title, "start", 14, bold=True)
    foot = _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, x_label, "middle")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        'font-family="system-ui, sans-serif" fill="#334155">'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>{head}{turned}{foot}'
        + "".join([*legend, *parts])
        + "</svg>\n"
    )


def _y_axis(y_high: float) -> list[str]:
    parts = []
    for step in range(5):
        value = y_high * step / 4
        y = _height(value, y_high)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e8f0"/>')
        parts.append(_text(LEFT - 6, y + 4, written(value), "end"))
    return parts


def _x_axis(low: float, high: float) -> list[str]:
    texts = []
    for step in range(6):
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / 5
        texts.append(_text(x, HEIGHT - BOTTOM + 16, written(low + (high - low) * step / 5), "middle"))
    return texts


def _box(x: float, y: float, width: float, height: float, paint: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" {paint}/>'


def _text(x: float, y: float, text: str, anchor: str, size: int = 11, *, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{weight}'
    return f"<text {place}>{escape(text)}</text>"


def _height(value: float, y_high: float) -> float:
    return HEIGHT - BOTTOM - value / y_high * (HEIGHT - TOP - BOTTOM)


def _ceiling(value: float) -> float:
    """Return the next of 1, 2, 2.5, 5 times a power of ten."""
    if value <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _colours(count: int) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(count)]
