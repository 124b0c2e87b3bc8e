"""Tables are printed for terminals and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GAP = "  "


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return columns as wide as they need be, numbers to the right; None is `-`, a control character `?`."""
    body = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    right = [bool(body) and all(_is_number(row[place]) for row in body) for place in range(len(head))]
    lines = [_line(row, widths, right) for row in ([name.upper() for name in head], *body)]
    return "\n".join(lines)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown; the first column is left-aligned, figures to the right."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    first, *others = ("| " + " | ".join(row) + " |" for row in (head, *rows))
    return "\n".join([first, rule, *others, ""])


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return `name  value` lines."""
    shown = [(name, _cell(value)) for name, value in pairs]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"{name.ljust(width)}{GAP}{value}" for name, value in shown)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    ]
    return GAP.join(padded).rstrip()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    # What a receiver or a partner sent must not steer the terminal.
    return "".join(char if char.isprintable() else "?" for char in str(value))


def _is_number(text: str) -> bool:
    return text == "-" or text.removeprefix("-").replace(".", "", 1).isdigit()
