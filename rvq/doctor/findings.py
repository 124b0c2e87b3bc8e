"""What a check of the doctor says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "advice", "wrong"]


@dataclass(frozen=True)
class Finding:
    """`wrong` has to be mended, `advice` is worth a look."""

    level: Level
    what: str
    text: str
