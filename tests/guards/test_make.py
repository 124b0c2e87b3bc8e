"""What the documents tell people to type exists."""

from __future__ import annotations

import re
import subprocess

from tests.support.source import ROOT, pages

TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)
MENTION = re.compile(r"`make ([a-z][a-z-]*)|^\s*(?:\$ )?make ([a-z][a-z-]*)", re.MULTILINE)


def targets() -> set[str]:
    return set(TARGET.findall((ROOT / "Makefile").read_text()))


def test_make_alone_lists_every_target() -> None:
    run = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = {line.split()[1] for line in run.stdout.splitlines() if line.strip().startswith("make ")}
    assert listed == targets()
    assert {"install", "test", "lint", "demo", "up"} <= listed


def test_every_make_target_in_a_document_exists() -> None:
    text = "\n".join(path.read_text() for path in pages())
    mentioned = {first or second for first, second in MENTION.findall(text)}
    assert mentioned <= targets()
