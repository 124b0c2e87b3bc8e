"""Who may import whom (design section 9)."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.support.source import ROOT, imports, is_below, module_name, python_files, relative, tree

AUDIENCES = ("partner", "worker", "admin", "ops")
OURS = ("app", "dispatcher", "worker_sdk", "bench", "tests")
# What the dispatcher may take from app: modules with no web framework behind them.
LEAVES = (
    "app.settings",
    "app.db",
    "app.db_connection",
    "app.db_errors",
    "app.ids",
    "app.logs",
    "app.metrics",
    "app.migrations",
    "app.public_addresses",
    "app.scheduling",
    "app.signatures",
    "app.webhook_address",
)
# Only these name SQL functions: one door to the database for each audience.
DOORS = ("store.py",)
RUNS_SQL_OF_ITS_OWN = ("app/migrations.py",)
# Benchmarks of one piece alone, not of the service.
MEASURES_FROM_WITHIN = ("bench/sending.py", "bench/core/")
SQL_FUNCTION = re.compile(r"\brvq\.[a-z_]+\s*\(")


def offences(folder: str, *forbidden: str, allowed: tuple[str, ...] = ()) -> list[str]:
    """Imports below a folder that are in `forbidden` and not in `allowed`.

    `app` alone is no offence: `from app import settings` names it too, and there is nothing in it.
    """
    return [
        f"{relative(path)} imports {name}"
        for path in python_files(folder)
        for name in sorted(imports(path))
        if is_below(name, *forbidden) and not is_below(name, *allowed) and name != "app"
    ]


def test_the_worker_sdk_imports_only_itself_requests_and_the_standard_library() -> None:
    allowed = ("worker_sdk", "requests", "urllib3", "")
    strangers = [
        f"{relative(path)} imports {name}"
        for path in python_files("worker_sdk")
        for name in imports(path)
        if name.partition(".")[0] not in sys.stdlib_module_names and not is_below(name, *allowed)
    ]
    assert strangers == []


def test_the_dispatcher_imports_only_leaf_modules_of_the_app() -> None:
    assert offences("dispatcher", "app", allowed=LEAVES) == []
    assert offences("dispatcher", "worker_sdk", "bench", "tests", "flask", "werkzeug") == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_module_never_reaches_the_web_framework(leaf: str) -> None:
    seen: set[str] = set()
    waiting = [leaf]
    while waiting:
        module = waiting.pop()
        path = file_of(module)
        if module in seen or path is None:
            continue
        seen.add(module)
        found = imports(path)
        assert not [name for name in found if is_below(name, "flask", "werkzeug", "gunicorn")], module
        waiting += [name for name in found if name.startswith("app.")]


def file_of(module: str) -> Path | None:
    base = ROOT / Path(*module.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.exists()), None)


@pytest.mark.parametrize("audience", AUDIENCES)
def test_audiences_never_import_each_other(audience: str) -> None:
    others = [f"app.{other}" for other in AUDIENCES if other != audience]
    assert offences(f"app/{audience}", *others) == []


@pytest.mark.parametrize("folder", ["app", "dispatcher"])
def test_what_runs_in_production_imports_neither_tests_nor_the_bench_nor_the_sdk(folder: str) -> None:
    allowed = ("worker_sdk",) if folder == "app" else ()  # the demo runs SDK workers
    found = offences(folder, "bench", "tests", "worker_sdk", "pytest", "hypothesis", allowed=allowed)
    assert found == []


def test_only_the_command_line_uses_the_sdk() -> None:
    users = {path for path in python_files("app") if any(is_below(n, "worker_sdk") for n in imports(path))}
    assert {relative(path) for path in users if not relative(path).startswith("app/cli/")} == set()


def test_the_bench_speaks_http() -> None:
    allowed = ("app.embedded", "app.cli", "app.settings", "app.paths", "app.migrations", "app.sql_files")
    found = offences("bench", "app", "dispatcher", "flask", "tests", allowed=allowed)
    assert [line for line in found if not line.startswith(MEASURES_FROM_WITHIN)] == []


def test_sql_functions_are_named_in_store_modules_only() -> None:
    found = [
        relative(path)
        for path in python_files("app", "dispatcher")
        if path.name not in DOORS
        and relative(path) not in RUNS_SQL_OF_ITS_OWN
        and any(SQL_FUNCTION.search(text) for text in strings(path))
    ]
    assert found == []


def strings(path: Path) -> list[str]:
    """All string constants of a file but its docstrings, which may explain."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]


def test_every_module_has_a_docstring() -> None:
    bare = [
        module_name(path)
        for path in python_files("app", "dispatcher", "worker_sdk", "bench", "tests")
        if path.read_text().strip() and not ast.get_docstring(tree(path))
    ]
    assert bare == []
