"""What the documents say about the repository is so: the diagram of folders, links, numbers of decisions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.source import PACKAGES, ROOT, pages, relative

DIAGRAM = re.compile(r"^## The folders\n.*?^```\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
HEADING = re.compile(r"^### (D\d+) ", re.MULTILINE)
DOCUMENTS = pages()


def drawn() -> set[str]:
    """Return the folders (`app/web/`) and top modules (`app/api.py`) of the diagram in DESIGN.md.

    A line is a folder and what lives there, or modules of the package above it; two spaces are one level.
    """
    found: set[str] = set()
    folders: list[str] = []
    for line in DIAGRAM.findall((ROOT / "DESIGN.md").read_text())[0].splitlines():
        words = line.split()
        if words[0].endswith(".py"):
            found |= {folders[0] + word for word in words}
        else:
            folders[(len(line) - len(line.lstrip())) // 2 :] = [words[0]]
            found.add("".join(folders))
    return found


def there() -> set[str]:
    """Return the folders that hold Python or SQL, and the modules at the top of a package."""
    files = [path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py")]
    files = [path for path in files if "node_modules" not in path.parts and path.stat().st_size]
    nested = [path.relative_to(ROOT).parents for path in [*files, *(ROOT / "sql").rglob("*.sql")]]
    folders = {f"{parent}/" for parents in nested for parent in parents[:-1]}
    modules = {relative(path) for path in files if path.parent.parent == ROOT and path.stem != "__init__"}
    return folders | modules


def test_the_diagram_of_folders_is_what_is_there() -> None:
    assert (there() - drawn(), drawn() - there()) == (set(), set()), (
        "not in the diagram, not in the repository"
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=relative)
def test_every_link_leads_somewhere(document: Path) -> None:
    dead = [
        target for target in LINK.findall(document.read_text()) if not (document.parent / target).exists()
    ]
    assert dead == []


def test_every_decision_that_is_named_exists_once() -> None:
    numbers = HEADING.findall((ROOT / "DESIGN.md").read_text())
    assert numbers == [f"D{number}" for number in range(1, len(numbers) + 1)]
    named = {name for document in DOCUMENTS for name in re.findall(r"\bD\d+\b", document.read_text())}
    assert named <= set(numbers)
