"""What a check of the doctor's says."""

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


def level_of(value: float, advice_above: float, wrong_above: float) -> Level:
    return "wrong" if value > wrong_above else "advice" if value > advice_above else "ok"
