"""The rigs of the SDK's tests: a real socket, or loops stepped by hand."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.worker_sdk.api import ScriptedAPI
from tests.worker_sdk.loops import Loops
from tests.worker_sdk.processes import Process
from worker_sdk.testing import FakeRVQ

Start = Callable[..., Process]


@pytest.fixture
def start(api: ScriptedAPI) -> Iterator[Start]:
    """Start workers of the handlers in tests/worker_sdk."""
    started: list[Process] = []

    def start(handler: str, *options: str, **more: Any) -> Process:
        started.append(Process(api, handler, *options, **more))
        return started[-1]

    yield start
    for process in started:
        process.end()


@pytest.fixture
def api() -> Iterator[ScriptedAPI]:
    """Serve RVQ's worker API on a real socket."""
    api = ScriptedAPI()
    yield api
    api.down()


@pytest.fixture
def loops() -> Loops:
    """Return the worker's loops, none of them running, over RVQ in memory and a clock that the test moves."""
    return Loops()


@pytest.fixture
def rvq() -> FakeRVQ:
    return FakeRVQ()
