"""The demo's input, and what is true of it, are worked out without RVQ."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

MOST_FILES = 10_000  # sub_tasks of one task


@dataclass(frozen=True)
class Facts:
    """One file's `\\n`-separated lines, whitespace-separated words, bytes, and the SHA-256 in hex."""

    lines: int
    words: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Facts:
        content = path.read_bytes()
        return cls(
            lines=content.count(b"\n"),
            words=len(content.split()),
            bytes=len(content),
            sha256=hashlib.sha256(content).hexdigest(),
        )

    def as_json(self) -> dict[str, int | str]:
        return asdict(self)


@dataclass(frozen=True)
class Sum:
    """The sums of many files. `sha256` is over the files' own, in their order."""

    files: int
    lines: int
    words: int
    bytes: int
    sha256: str

    @classmethod
    def of(cls, many: Iterable[Facts]) -> Sum:
        facts = list(many)
        return cls(
            files=len(facts),
            lines=sum(one.lines for one in facts),
            words=sum(one.words for one in facts),
            bytes=sum(one.bytes for one in facts),
            sha256=hashlib.sha256("".join(one.sha256 for one in facts).encode()).hexdigest(),
        )


def standard_library() -> list[Path]:
    """Return every `.py` file of the standard library, installed packages aside, in a fixed order."""
    root = Path(sysconfig.get_path("stdlib"))
    files = (path for path in root.rglob("*.py") if "site-packages" not in path.parts and path.is_file())
    return sorted(files)[:MOST_FILES]
