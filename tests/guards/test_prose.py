"""What a program can see of plain English: widths of lines, first lines of docstrings, old words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.source import CODE, PACKAGES, ROOT, pages, python_files, relative, tree

WIDTH = 120
PRODUCT = ("app", "dispatcher", "worker_sdk", "rvq")
# A clause begins with a capital, or with the name of what it tells about, and comes to an end.
CLAUSE = re.compile(r"[A-Z`][^\n]*[.:?](?:\n|\Z)")
TABLE_OR_LINK = re.compile(r"\s*(?:\||\[[^\]]*\]:|[-*]?\s*\[[^\]]*\]\([^)]*\)[.,:]?$)")

# Private words of earlier days; docs/concepts.md, "Glossary", has today's.
OLD_PYTHON = {"Merger", "_Round", "Place", "Later", "LaterBody", "Incoming", "Arrivals", "Flights"}
OLD_PYTHON |= {"IdleConnections", "Notes", "luck", "take_turns", "keep_to", "go_on", "fly", "lap"}
OLD_SQL = re.compile(
    r"\brvq\.(?:draw|enter|enter_gates|verdict|use_keys|end_early|tried_tasks|siblings_at_stake|note_host_health)\b"
    r"|\bs\.again\b|\bAND (?:NOT )?again\b|\bagain = (?:true|false)\b|\bp_was\b|\bp_verdict\b"
)
# A migration stays as it was released, and its columns with it.
RELEASED = "sql/migrations/"


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a page that are neither code, nor a table, nor one link."""
    in_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("    ") and not TABLE_OR_LINK.match(line):
            yield number, line


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_lines_of_prose_are_no_wider_than_a_page(page: Path) -> None:
    assert [f"{page.name}:{number}" for number, line in prose(page) if len(line) > WIDTH] == []


@pytest.mark.parametrize("package", PRODUCT)
def test_the_first_line_of_a_docstring_is_a_clause(package: str) -> None:
    broken = [
        f"{relative(path)}: {docstring.splitlines()[0]}"
        for path in python_files(package)
        for docstring in docstrings(path)
        if not CLAUSE.match(docstring)
    ]
    assert broken == []


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


def test_old_names_do_not_come_back_to_python() -> None:
    back = {
        f"{relative(path)}: {name}"
        for path in python_files(*PACKAGES, "tests")
        for name in names(path) & OLD_PYTHON
    }
    assert back == set()


def names(path: Path) -> set[str]:
    """Return all names in a Python file: not the words of its strings and comments."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    return {token.string for token in tokens if token.type == tokenize.NAME}


def test_old_names_do_not_come_back_to_sql() -> None:
    texts = [*sql_files(), *python_files(*CODE), *pages()]
    back = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in texts
        if path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if OLD_SQL.search(line)
    ]
    assert back == []


def test_old_names_do_not_come_back_to_pages() -> None:
    back = {
        f"{relative(page)}: {name}"
        for page in pages()
        for code in re.findall(r"`([^`\n]+)`", page.read_text())
        for name in set(re.findall(r"\w+", code)) & OLD_PYTHON
    }
    assert back == set()


def sql_files() -> list[Path]:
    return [path for path in sorted((ROOT / "sql").rglob("*.sql")) if not relative(path).startswith(RELEASED)]


@pytest.mark.parametrize(
    ("docstring", "is_clause"),
    [
        ("Return the oldest.", True),
        ("`limit` of an attempt, in seconds:\n\n    one", True),
        ("Is there room?", True),
        ("the oldest.", False),
        ("Return the oldest", False),
        ("Return the oldest\nof them.", False),
    ],
)
def test_clauses_are_told_from_fragments(docstring: str, is_clause: bool) -> None:
    assert bool(CLAUSE.match(docstring)) is is_clause
