"""Linux keeps how much memory a process has needed at most."""

from __future__ import annotations

import re
from pathlib import Path

from rvq.errors import CommandError

# What /proc/PID/clear_refs takes as "forget the highest".
_RESET_PEAK = "5"


class MemoryPeak:
    """Bytes resident above what they were when this was made."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        try:
            (self._folder / "clear_refs").write_text(_RESET_PEAK)
        except OSError as error:
            raise CommandError(f"the suite measures memory as only Linux tells it: {error}") from None
        self._base = self._bytes("VmRSS")

    def grown(self) -> int:
        """Return the growth up to the highest moment so far."""
        return self._bytes("VmHWM") - self._base

    def _bytes(self, name: str) -> int:
        found = re.search(rf"^{name}:\s+(\d+) kB", (self._folder / "status").read_text(), re.MULTILINE)
        if found is None:
            raise CommandError("the dispatcher has ended")
        return int(found[1]) * 1024
