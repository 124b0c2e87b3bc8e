"""Files that a person reads in one sitting, functions with one job, and one word for each thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.support.source import PACKAGES, ROOT, pages, python_files, relative, tree

CODE_LINES, TEST_LINES, FUNCTION_LINES = 260, 400, 45
# The glossary has task and sub_task; the names that other systems use for them would mean a third thing.
# (A command line's option has a hyphen where the word has its underscore.)
FORBIDDEN = re.compile(r"\b([Jj]obs?|[Ss]ubtasks?|(?<!--)[Ss]ub[- ][Tt]asks?)\b")
# Where other systems are talked about in their own words.
ELSEWHERE = ("bench/peers/", "docs/performance.md", "tests/guards/test_files.py", "DESIGN.md")


def sql_files() -> list[Path]:
    """Return all but the generated one."""
    return [path for path in sorted((ROOT / "sql").rglob("*.sql")) if path.name != "schema.sql"]


def too_long(paths: list[Path], most: int) -> list[str]:
    lengths = {relative(path): len(path.read_text().splitlines()) for path in paths}
    return [f"{name}: {length} lines" for name, length in lengths.items() if length > most]


def test_files_are_short() -> None:
    long = too_long(python_files(*PACKAGES), CODE_LINES)
    long += too_long(python_files("tests"), TEST_LINES)
    assert long == []


def test_functions_are_short() -> None:
    long = [
        f"{relative(path)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in python_files(*PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert long == []


def test_one_word_for_each_thing() -> None:
    texts = python_files(*PACKAGES, "tests") + sql_files() + pages()
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in texts
        if not relative(path).startswith(ELSEWHERE)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert found == []
