"""The plans of all statements inside a call, as the planner prints them (debug_print_plan) in notices.

auto_explain is not in every installation; this is in all of them. A plan is printed when it is made, which
for the statements of a PL/pgSQL function is once a session: so a connection of its own for each look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from app.db import Connection
from tests.sql.calls import Calls

FIELD = re.compile(r":(?:scan\.)?(\w+) (\S+)")
TOKEN = re.compile(r"\\.|[{}]", re.DOTALL)
SCANS = {"SEQSCAN", "BITMAPHEAPSCAN", "SAMPLESCAN"}


@dataclass
class Node:
    """A node of the printed tree: `fields` are its scalar ones."""

    name: str
    fields: dict[str, str]
    children: list[Node] = field(default_factory=list)

    def all(self) -> Iterator[Node]:
        yield self
        for child in self.children:
            yield from child.all()


@dataclass
class Plan:
    """One planned statement; `tables` by their place in it, `indexes` those that it reads."""

    root: Node
    tables: dict[int, str]
    indexes: set[str]

    def read_from_end_to_end(self) -> set[str]:
        """The tables and partitions that are."""
        scans = [node for node in self.root.all() if node.name in SCANS]
        return {self.tables[int(node.fields["scanrelid"])] for node in scans}

    def hashes_a_whole_subselect(self) -> bool:
        """Such as EXISTS over all rows of a table that few are asked for of."""
        return any(
            node.name == "SUBPLAN" and node.fields["useHashTable"] == "true" for node in self.root.all()
        )

    def sorts(self) -> bool:
        return _has_sort([self.root])

    def sorts_under_skip_locked(self) -> bool:
        return _has_sort(self._skip_locked())

    def skips_locked(self) -> bool:
        return bool(self._skip_locked())

    def _skip_locked(self) -> list[Node]:
        """The LockRows nodes that wait for nobody."""
        return [
            node
            for node in self.root.all()
            if node.name == "LOCKROWS"
            and any(c.name == "PLANROWMARK" and c.fields["waitPolicy"] == "1" for c in node.children)
        ]


def _has_sort(roots: list[Node]) -> bool:
    return any(node.name in ("SORT", "INCREMENTALSORT") for root in roots for node in root.all())


class Plans:
    """Watches one connection."""

    def __init__(self, connection: Connection) -> None:
        self.calls = Calls(connection)
        self._notices: list[str] = []
        connection.notices = self._notices
        self.calls.rows("SET debug_print_plan = on")
        self.calls.rows("SET client_min_messages = log")
        self._notices.clear()

    def take(self) -> list[Plan]:
        """What was planned since the last time."""
        texts = [n[n.index("{PLANNEDSTMT") :] for n in self._notices if "{PLANNEDSTMT" in n]
        self._notices.clear()
        self.calls.rows("SET debug_print_plan = off")
        try:
            names = {str(oid): name for oid, name in self.calls.rows("SELECT oid, relname FROM pg_class")}
        finally:
            self.calls.rows("SET debug_print_plan = on")
            self._notices.clear()
        return [_plan(_parse(text), names) for text in texts]


def _plan(root: Node, names: dict[str, str]) -> Plan:
    entries = [child for child in root.children if child.name in ("RANGETBLENTRY", "RTE")]
    tables = {
        place: names[entry.fields["relid"]]
        for place, entry in enumerate(entries, 1)
        if entry.fields.get("relid", "0") != "0"
    }
    indexes = {names[node.fields["indexid"]] for node in root.all() if "indexid" in node.fields}
    return Plan(root, tables, {re.sub(r"^(\w+)_\d+_(\w+)$", r"\1_\2", name) for name in indexes})


def _parse(text: str) -> Node:
    """Braces make the tree; what stands between them are fields of the node around."""
    stack: list[tuple[Node, list[str]]] = [(Node("", {}), [])]
    end = 0
    for token in TOKEN.finditer(text):
        if token.group() == "{":
            stack[-1][1].append(text[end : token.start()])
            name = re.match(r"\w+", text[token.end() :])
            stack.append((Node(name.group() if name else "", {}), []))
            end = token.end()
        elif token.group() == "}":
            node, parts = stack.pop()
            parts.append(text[end : token.start()])
            node.fields = dict(FIELD.findall(" ".join(parts)))
            stack[-1][0].children.append(node)
            end = token.end()
            if len(stack) == 1:
                return node
    raise ValueError("a plan that does not end")
