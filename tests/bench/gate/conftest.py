"""One RVQ for all runs of the gate, with room in its allowlist for a proxy before the receiver."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.gate.stack import GateStack, whole_stack
from rvq.embedded import FAST_AND_UNSAFE
from rvq.ports import free_port

SMALL = {name: str(value) for name, value in FAST_AND_UNSAFE.items()} | {"shared_buffers": "64MB"}


@pytest.fixture(scope="package")
def webhook_proxy_port() -> int:
    return free_port()


@pytest.fixture(scope="package")
def stack(webhook_proxy_port: int) -> Iterator[GateStack]:
    allowed = [f"http://127.0.0.1:{webhook_proxy_port}"]
    with whole_stack(also_allowed=allowed, postgres=SMALL) as stack:
        yield stack
