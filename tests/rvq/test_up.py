"""`rvq up`: a stack that stays, refuses a second one, and comes back after a kill with its data."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rvq.client import Client
from rvq.embedded import Cluster
from rvq.local.credentials import local_credentials
from rvq.local.settings import child_environ
from rvq.local.stack import is_ready
from rvq.ports import free_port
from tests.support.concurrency import wait_until
from tests.support.pauses import stopped

Up = subprocess.Popen[str]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rvq-up-") as parent:
        Path(parent).chmod(0o755)
        yield Path(parent) / "data"
        Cluster(Path(parent) / "data" / "postgresql").stop(deadline_seconds=5)


@pytest.fixture
def up(folder: Path) -> Iterator[Callable[..., Up]]:
    """Starts `rvq up` in the folder, on one port; whatever still runs is killed, its children follow."""
    bind = f"127.0.0.1:{free_port()}"
    started: list[Up] = []

    def up(**settings: str) -> Up:
        command = [sys.executable, "-m", "rvq.__main__", "up", "--data", str(folder)]
        process = subprocess.Popen(
            command,
            env=child_environ({"APP_BIND": bind, **settings}),
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


def partner(folder: Path) -> Client:
    """A client with what the stack's own file says about address and key."""
    environment = local_credentials(folder / "environment")
    return Client(environment["RVQ_URL"], environment["APP_PARTNER_TOKEN"])


def test_it_serves_stops_on_sigint_and_keeps_its_data(up: Callable[..., Up], folder: Path) -> None:
    first = up()
    banner(first)
    task = partner(folder).post("tasks", body={"sub_tasks": [{"payload": 1}]})
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 0
    assert Cluster(folder / "postgresql").running is None
    assert not is_ready(local_credentials(folder / "environment")["RVQ_URL"].removeprefix("http://"))
    second = up()
    banner(second)
    assert partner(folder).get("tasks", task["id"])["counts"]["queued"] == 1
    second.terminate()
    assert second.wait(60) == 0


def test_started_twice_the_second_refuses_and_the_first_goes_on(up: Callable[..., Up], folder: Path) -> None:
    first = up()
    banner(first)
    second = up()
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 1
    assert "runs in" in output
    assert "already" in output
    assert partner(folder).get("stats")


def test_killed_in_the_middle_it_leaves_nothing_in_the_way_of_the_next(
    up: Callable[..., Up], folder: Path
) -> None:
    first = up()
    banner(first)
    task = partner(folder).post("tasks", body={"sub_tasks": [{"payload": 1}]})
    first.kill()
    first.wait()
    second = up()
    banner(second)
    assert partner(folder).get("tasks", task["id"])["status"] == "queued"


def test_an_api_that_dies_ends_the_stack_with_a_message(up: Callable[..., Up], folder: Path) -> None:
    process = up()
    found = re.search(r"the API \(pid (\d+)\)", banner(process))
    assert found
    os.kill(int(found.group(1)), signal.SIGKILL)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the API ended with status -9" in output


def test_after_a_pause_of_all_its_processes_the_stack_goes_on(up: Callable[..., Up], folder: Path) -> None:
    process = up()
    pids = [int(pid) for pid in re.findall(r"\(pid (\d+)\)", banner(process))]
    assert len(pids) == 2
    with contextlib.ExitStack() as stack:
        for pid in (process.pid, *pids):
            stack.enter_context(stopped(pid))
    task = partner(folder).post("tasks", body={"sub_tasks": [{"payload": 1}], "not_before": soon()})
    wait_until(lambda: partner(folder).get("tasks", task["id"])["counts"]["queued"], "its dispatcher works")
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output.strip()) == (0, "stopping")


def test_what_the_settings_leave_off_is_said_and_the_rest_runs(up: Callable[..., Up], folder: Path) -> None:
    process = up(APP_WEBHOOK_SECRET="", APP_ADMIN_TOKEN="")
    said = banner(process)
    assert "off          no APP_ADMIN_TOKEN: the admin API is switched off" in said
    assert (
        "off          no webhooks, the dispatcher only does the maintenance: APP_WEBHOOK_SECRET: not" in said
    )
    task = partner(folder).post("tasks", body={"sub_tasks": [{"payload": 1}], "not_before": soon()})
    wait_until(lambda: partner(folder).get("tasks", task["id"])["counts"]["queued"], "its dispatcher works")
    process.terminate()
    assert process.wait(60) == 0


def soon() -> str:
    return (datetime.now(UTC) + timedelta(seconds=1)).isoformat()
