"""Who may import whom: the rules of DESIGN.md, "The house"."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from tests.support.source import (
    PACKAGES,
    ROOT,
    imports,
    is_below,
    module_name,
    python_files,
    relative,
    strings,
    tree,
)

AUDIENCES = ("partner", "worker", "admin", "ops")
# What the dispatcher may take from app: nothing with a web framework behind it.
SHARED = ("app.settings", "app.db", "app.webhooks", "app.logs", "app.ids", "app.cpu")
# Only these import app.server: Gunicorn's hooks and worker are chosen there, and nowhere else.
SERVED_BY = ("app/server/", "app/wsgi.py")
# Only these name SQL functions: one door to the database for each audience.
DOORS = ("store.py",)
RUNS_SQL_OF_ITS_OWN = (
    "app/db/ledger.py",
    "app/db/partitions.py",
    "app/db/server.py",
    "dispatcher/maintenance.py",
    "dispatcher/statements.py",
)
# Benchmarks of one piece alone, not of the service.
MEASURES_FROM_WITHIN = ("bench/micro/", "bench/core/", "bench/hostile/")
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


def test_the_dispatcher_imports_only_what_is_shared() -> None:
    assert offences("dispatcher", "app", allowed=SHARED) == []
    assert offences("dispatcher", "flask", "werkzeug", "gunicorn") == []


@pytest.mark.parametrize("module", SHARED)
def test_what_is_shared_never_reaches_the_web_framework(module: str) -> None:
    seen: set[str] = set()
    waiting = [name for path in files_of(module) for name in imports(path)]
    while waiting:
        name = waiting.pop()
        assert not is_below(name, "flask", "werkzeug", "gunicorn"), f"{module} reaches {name}"
        if name not in seen:
            seen.add(name)
            waiting += [name for path in files_of(name) for name in imports(path)]


def files_of(module: str) -> list[Path]:
    """The files of a module of ours, or of all modules of a package."""
    base = ROOT / Path(*module.split("."))
    if base.is_dir() and module.partition(".")[0] in PACKAGES and module != "app":
        return sorted(base.rglob("*.py"))
    return [base.with_suffix(".py")] if base.with_suffix(".py").exists() else []


@pytest.mark.parametrize("audience", AUDIENCES)
def test_audiences_never_import_each_other(audience: str) -> None:
    others = [f"app.{other}" for other in AUDIENCES if other != audience]
    assert offences(f"app/{audience}", *others) == []


def test_what_all_audiences_share_imports_none_of_them() -> None:
    assert offences("app/web", *(f"app.{audience}" for audience in AUDIENCES)) == []


@pytest.mark.parametrize("folder", ["app", "dispatcher"])
def test_production_imports_neither_the_command_line_nor_the_bench_nor_the_sdk(folder: str) -> None:
    assert offences(folder, "rvq", "bench", "worker_sdk", "tests", "pytest", "hypothesis") == []


def test_only_gunicorn_and_wsgi_import_the_server() -> None:
    found = [
        relative(path)
        for path in python_files("app", "dispatcher", "rvq", "bench", "worker_sdk")
        if not relative(path).startswith(SERVED_BY) and any(is_below(n, "app.server") for n in imports(path))
    ]
    assert found == []


def test_the_command_line_imports_no_bench() -> None:
    assert offences("rvq", "bench", "tests") == []


def test_the_bench_speaks_http() -> None:
    allowed = ("app.settings", "app.paths", "app.db.migrations", "app.db.sql_files")
    found = offences("bench", "app", "dispatcher", "flask", "tests", allowed=allowed)
    assert [line for line in found if not line.startswith(MEASURES_FROM_WITHIN)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count: they only hide a circle."""
    graph = {module_name(path): _ours(path) for path in python_files(*PACKAGES)}
    assert circles(graph) == []


def _ours(path: Path) -> set[str]:
    """The modules of ours that a file imports; a package stands for its `__init__.py`."""
    own = module_name(path)
    return {name for name in imports(path) if name != own and _file(name) is not None}


def _file(module: str) -> Path | None:
    base = ROOT / Path(*module.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((path for path in candidates if path.exists()), None)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules each of which reaches all others of its group."""
    reach = {module: reachable(graph, module) for module in graph}
    groups = {
        tuple(sorted(other for other in found if module in reach.get(other, set())))
        for module, found in reach.items()
        if module in found
    }
    return sorted(map(list, groups))


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        module = waiting.pop()
        if module not in seen:
            seen.add(module)
            waiting += graph.get(module, set())
    return seen


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(graph: dict[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(graph) == expected


def test_sql_functions_are_named_in_store_modules_only() -> None:
    found = [
        relative(path)
        for path in python_files("app", "dispatcher")
        if path.name not in DOORS
        and relative(path) not in RUNS_SQL_OF_ITS_OWN
        and any(SQL_FUNCTION.search(text) for text in strings(path))
    ]
    assert found == []


def test_every_module_has_a_docstring() -> None:
    bare = [
        module_name(path)
        for path in python_files(*PACKAGES, "tests")
        if path.read_text().strip() and not ast.get_docstring(tree(path))
    ]
    assert bare == []
