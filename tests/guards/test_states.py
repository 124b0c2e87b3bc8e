"""The pictures of docs/concepts.md show the transitions that the model makes: those, and no others."""

from __future__ import annotations

import re

from tests.model.states import all_transitions
from tests.support.source import ROOT, pages, relative

PICTURE = re.compile(
    r"^```mermaid\n---\ntitle: (\w+)\n---\nstateDiagram-v2\n(.*?)^```$", re.DOTALL | re.MULTILINE
)
ARROW = re.compile(r"^\s*(\S+) --> (\w+): \S", re.MULTILINE)


def drawn() -> list[tuple[str, str, str]]:
    """Return (kind, from, to) for each arrow of the pictures."""
    pictures = PICTURE.findall((ROOT / "docs" / "concepts.md").read_text())
    return [(kind, before, after) for kind, picture in pictures for before, after in ARROW.findall(picture)]


def test_the_pictures_of_the_states_are_the_transitions_of_the_model() -> None:
    assert sorted(drawn()) == sorted(all_transitions())


def test_states_are_drawn_in_one_place_only() -> None:
    drawing = [relative(path) for path in pages() if "stateDiagram" in path.read_text()]
    assert drawing == ["docs/concepts.md"]
