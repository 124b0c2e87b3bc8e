"""The rigs of the SDK's tests: a real socket, or loops stepped by hand."""

from collections.abc import Iterator

import pytest

from tests.worker_sdk.api import ScriptedAPI
from tests.worker_sdk.loops import Loops
from worker_sdk.testing import FakeRVQ


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
