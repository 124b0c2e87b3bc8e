"""The report of a gate run is Markdown, for a terminal or a repository, and HTML with plots."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from bench.gate.monitor import Look, inside
from bench.stats import written
from bench.svg import Point, bar_chart, line_chart
from rvq.tables import markdown_table

SYSTEM = ("API", "PostgreSQL", "dispatcher")
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:820px;margin:2em auto;padding:0 1em;color:#1e293b}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;border-bottom:1px solid #e2e8f0;"
    "text-align:right}td:first-child,th:first-child{text-align:left}.ok{color:#047857}.fail{color:#b91c1c;"
    "font-weight:600}svg{max-width:100%;height:auto;margin:.6em 0;border:1px solid #e2e8f0}"
)
Document = Mapping[str, Any]
Table = tuple[Sequence[str], Sequence[Sequence[str]]]


def markdown(document: Document) -> str:
    parts = [f"# Gate: {headline(document)}\n"]
    parts += [f"\n{markdown_table(*rows)}" for rows in tables(document)]
    return "".join(parts)


def html(document: Document, looks: Sequence[Look]) -> str:
    result = "ok" if document["passed"] else "fail"
    parts = [f'<h1 class="{result}">{escape(headline(document))}</h1>']
    parts += [_html_table(*rows) for rows in tables(document)]
    parts += plots(document, looks) if "measured" in document else []
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>RVQ gate</title><style>{STYLE}</style>'
        + "\n".join(parts)
        + "</html>\n"
    )


def headline(document: Document) -> str:
    failed = [check["name"] for check in document["checks"] if not check["holds"]]
    result = "PASS" if document["passed"] else f"FAIL ({', '.join(failed)})"
    load = document.get("profile", {}).get("load")
    return f"{result} at {written(load['rate'])} a second" if load else result


def tables(document: Document) -> list[Table]:
    checks = [(c["name"], "ok" if c["holds"] else "FAIL", c["found"]) for c in document["checks"]]
    found: list[Table] = []
    if "measured" in document:
        found.append(_streams(document["measured"]))
    found.append((("check", "", "found"), checks))
    if document.get("machine"):
        found += _machine(document["machine"])
    return found


def plots(document: Document, looks: Sequence[Look]) -> list[str]:
    streams, webhook = document["measured"]["streams"], document["measured"]["webhook"]
    budgets = document["profile"]["budgets"]
    drawn = [
        line_chart(f"{name}: latency from the due time", "second", "ms", _course(figures["course"]))
        for name, figures in streams.items()
    ]
    drawn.append(line_chart("webhook: lag from the event", "second", "ms", _course(webhook["course"])))
    shares = {name: _shares(figures["ms"]) for name, figures in streams.items()}
    drawn.append(bar_chart(f"percentiles (p99 budget {budgets['http_p99_ms']} ms)", "ms", shares))
    drawn += _machine_plots(inside(looks, tuple(document["window"])), document["window"][0])
    return drawn


def _machine_plots(looks: Sequence[Look], start: float) -> list[str]:
    if not looks:
        return []
    cores: dict[str, list[Point]] = {name: [] for name in looks[0].cpu}
    wal: list[Point] = []
    for before, after in itertools.pairwise(looks):
        seconds = after.at - before.at
        wal.append((after.at - start, (after.wal - before.wal) / seconds / 1e6))
        for name, points in cores.items():
            points.append((after.at - start, (after.cpu[name] - before.cpu[name]) / seconds))
    names = sorted({name for look in looks for name in look.connections})
    connections = {n: [(look.at - start, float(look.connections.get(n, 0))) for look in looks] for n in names}
    memory = {n: [(look.at - start, look.memory[n] / 1e6) for look in looks] for n in looks[0].memory}
    return [
        line_chart("CPU by component", "second", "cores", cores),
        line_chart("WAL written", "second", "MB/s", {"WAL": wal}),
        line_chart("connections to PostgreSQL", "second", "connections", connections),
        line_chart("memory (proportional)", "second", "MB", memory),
    ]


def _streams(measured: Document) -> Table:
    rows = [
        (
            name,
            f"{figures['reached']:.1f}",
            str(figures["errors"]),
            str(figures["shed"]),
            *(written(figures["ms"][share]) for share in ("p50", "p99", "p99.9", "p100")),
            written(figures["service_ms"]["p99"]),
            written(figures["late_ms"]["p99"]),
        )
        for name, figures in measured["streams"].items()
    ]
    webhook = measured["webhook"]
    lag = (written(webhook["ms"][share]) for share in ("p50", "p99", "p99.9", "p100"))
    invalid = f"{sum(webhook['invalid'].values())} invalid"
    rows.append(("webhook (lag)", f"{webhook['reached']:.1f}", invalid, "-", *lag, "-", "-"))
    head = ("stream", "a second", "errors", "shed", "p50 ms", "p99 ms", "p99.9 ms", "most ms")
    return (*head, "p99 from sending", "generator late p99"), rows


def _machine(machine: Document) -> list[Table]:
    cpu, cores = machine["cpu_us_per_task"], machine["cores"]
    rows = [(name, written(cpu[name]), f"{cores[name]:.2f}") for name in cpu]
    system = sum(cpu[name] for name in SYSTEM), sum(cores[name] for name in SYSTEM)
    rows.append(("**system** (API, PostgreSQL, dispatcher)", written(system[0]), f"{system[1]:.2f}"))
    other = [
        ("WAL bytes a task", written(machine["wal_bytes_per_task"])),
        ("commits a task", written(machine["commits_per_task"])),
        ("deadlocks", str(machine["deadlocks"])),
        *((f"connections of {name}", str(count)) for name, count in machine["connections_most"].items()),
        *(_memory(name, machine) for name in ("API", "dispatcher")),
    ]
    return [(("component", "CPU us a task", "cores"), rows), (("over the window", ""), other)]


def _memory(name: str, machine: Document) -> tuple[str, str]:
    before, after = machine["memory_after_warmup"][name], machine["memory_at_end"][name]
    return (
        f"memory of the {name}, after warm-up and at the end",
        f"{before / 1e6:.0f} MB, {after / 1e6:.0f} MB",
    )


def _course(course: Sequence[Sequence[float]]) -> dict[str, list[Point]]:
    return {"p50": [(s, p50) for s, p50, _ in course], "p99": [(s, p99) for s, _, p99 in course]}


def _shares(ms: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in ms.items() if name in ("p50", "p90", "p99", "p99.9")}


def _html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    for row in rows:
        kind = ' class="fail"' if "FAIL" in row else ""
        cells = "".join(f"<td>{escape(cell.replace('**', ''))}</td>" for cell in row)
        lines.append(f"<tr{kind}>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"
