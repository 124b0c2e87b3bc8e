"""`rvq up`: a stack that stays, refuses a second one, and comes back after a kill with its data."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rvq.embedded import Cluster
from rvq.local.credentials import local_credentials
from rvq.local.stack import OUR_PREFIXES, is_ready

Up = subprocess.Popen[str]


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rvq-up-") as parent:
        Path(parent).chmod(0o755)
        yield Path(parent) / "data"
        Cluster(Path(parent) / "data" / "postgresql").stop(deadline_seconds=5)


@pytest.fixture
def up(folder: Path) -> Iterator[Callable[[], Up]]:
    """Starts `rvq up` in the folder, on one port; whatever still runs is killed, its children follow."""
    bind = f"127.0.0.1:{unused_port()}"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(OUR_PREFIXES)}
    started: list[Up] = []

    def up() -> Up:
        command = [sys.executable, "-m", "rvq.__main__", "up", "--data", str(folder)]
        process = subprocess.Popen(
            command,
            env={**environ, "APP_BIND": bind},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield up
    for process in started:
        process.kill()
        process.communicate()


def banner(process: Up) -> str:
    """Wait until the stack says that it runs; what it said."""
    said = ""
    assert process.stdout
    for line in process.stdout:
        said += line
        if "/v1/stats" in line:
            return said
    raise AssertionError(f"rvq up ended with {process.wait()}:\n{said}")


def call(folder: Path, method: str, path: str, body: object = None) -> Any:
    """A partner's call, with what the stack's own file says about address and key."""
    environment = local_credentials(folder / "environment")
    connection = http.client.HTTPConnection(environment["RVQ_URL"].removeprefix("http://"), timeout=30)
    headers = {
        "Authorization": f"Bearer {environment['APP_PARTNER_TOKEN']}",
        "Content-Type": "application/json",
    }
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    assert response.status < 300, response.read()
    return json.loads(response.read())


def test_it_serves_stops_on_sigint_and_keeps_its_data(up: Callable[[], Up], folder: Path) -> None:
    first = up()
    banner(first)
    task = call(folder, "POST", "/v1/tasks", {"sub_tasks": [{"payload": 1}]})
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 0
    assert Cluster(folder / "postgresql").running is None
    assert not is_ready(local_credentials(folder / "environment")["RVQ_URL"].removeprefix("http://"))
    second = up()
    banner(second)
    assert call(folder, "GET", f"/v1/tasks/{task['id']}")["counts"]["queued"] == 1
    second.terminate()
    assert second.wait(60) == 0


def test_started_twice_the_second_refuses_and_the_first_goes_on(up: Callable[[], Up], folder: Path) -> None:
    first = up()
    banner(first)
    second = up()
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "runs in" in output
    assert "already" in output
    assert call(folder, "GET", "/v1/stats")


def test_killed_in_the_middle_it_leaves_nothing_in_the_way_of_the_next(
    up: Callable[[], Up], folder: Path
) -> None:
    first = up()
    banner(first)
    task = call(folder, "POST", "/v1/tasks", {"sub_tasks": [{"payload": 1}]})
    first.kill()
    first.wait()
    second = up()
    banner(second)
    assert call(folder, "GET", f"/v1/tasks/{task['id']}")["status"] == "queued"


def test_an_api_that_dies_ends_the_stack_with_a_message(up: Callable[[], Up], folder: Path) -> None:
    process = up()
    found = re.search(r"the API \(pid (\d+)\)", banner(process))
    assert found
    os.kill(int(found.group(1)), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the API ended with status -9" in output
