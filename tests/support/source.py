"""The project's own source files, for the guards."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("app", "dispatcher", "worker_sdk", "rvq", "bench")
CODE = (*PACKAGES, "tests", "sql", "deploy", "docs")

# What people write and read: not what measurements write.
PAGES = ("*.md", "docs/*.md", "sql/*.md", "worker_sdk/*.md", "deploy/**/*.md", "examples/**/*.md")


def pages() -> list[Path]:
    """Return all pages of prose, in order."""
    return sorted(path for pattern in PAGES for path in ROOT.glob(pattern))


def python_files(*folders: str) -> list[Path]:
    """All Python files below these folders of the repository, in order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module_name(path: Path) -> str:
    """`app.partner.store` for app/partner/store.py, `app.partner` for its __init__.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def strings(path: Path) -> list[str]:
    """Return all string constants of a file but its docstrings, which may explain."""
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


def imports(path: Path) -> set[str]:
    """Every module that a file imports, anywhere in it; for `from a import b` both `a` and `a.b`."""
    return set(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _base(node, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _base(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of what `from ...x import` means."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)


def is_below(module: str, *names: str) -> bool:
    """Whether `module` is one of these or inside one of them."""
    return any(module == name or module.startswith(name + ".") for name in names)
