"""What processes counted stays, and their files go, when they end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.parser import text_string_to_metric_families

from app.web import metric_files
from tests.app.process import Gunicorn
from tests.app.rig import ADMIN, PARTNER
from tests.support.concurrency import background, wait_until

Start = Callable[..., Gunicorn]
TASK = b'{"sub_tasks":[{"payload":1}]}'
SMALL = {"APP_DB_POOL": "4", "APP_PROCESSES": "2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "metrics"
    folder.mkdir()
    return folder


def counted(server: Gunicorn) -> float:
    """How many creates all processes have counted, those that ended too."""
    reply = server.call("GET", "/metrics", token=ADMIN)
    assert reply.status == 200, reply.body
    samples = (s for f in text_string_to_metric_families(reply.body.decode()) for s in f.samples)
    return sum(s.value for s in samples if s.name == "rvq_created_tasks_total")


def files(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("*.db")}


def is_tidy(server: Gunicorn, folder: Path) -> bool:
    """Whether there are files of the processes that serve and of the dead, and no others."""
    kinds = ("counter", "histogram")
    dead = {f"{kind}_dead.db" for kind in kinds}
    return dead <= files(folder) <= dead | {f"{kind}_{pid}.db" for kind in kinds for pid in server.children()}


def create(server: Gunicorn, count: int) -> None:
    for _ in range(count):
        assert server.call("POST", "/v1/tasks", TASK, token=PARTNER).status == 201


def reload(server: Gunicorn) -> None:
    before = server.children()
    server.signal(signal.SIGHUP)
    wait_until(
        lambda: not set(server.children()) & set(before) and len(server.children()) == len(before),
        "the processes are new ones",
        60,
    )


def test_reloads_and_kills_leave_no_files_behind_and_lose_no_count(gunicorn: Start, folder: Path) -> None:
    server = gunicorn(**SMALL, PROMETHEUS_MULTIPROC_DIR=str(folder))
    for _ in range(3):
        create(server, 5)
        reload(server)
    create(server, 5)
    victim = server.children()[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in server.children() and len(server.children()) == 2, "a new process", 60)
    wait_until(lambda: is_tidy(server, folder), "only files of those who serve are left")
    assert counted(server) == 20
    create(server, 1)
    assert counted(server) == 21
    assert "Traceback" not in server.log


def test_scrapes_during_reloads_never_see_less(gunicorn: Start, folder: Path) -> None:
    server = gunicorn(**SMALL, PROMETHEUS_MULTIPROC_DIR=str(folder))
    create(server, 10)
    seen: list[float] = []
    over = False

    def scrape() -> None:
        while not over:
            with contextlib.suppress(ConnectionError):
                seen.append(counted(server))

    with background(scrape) as scraping:
        try:
            for _ in range(3):
                reload(server)
                enough = len(seen) + 5
                wait_until(lambda: len(seen) >= enough or scraping.done(), "scrapes go on", 60)  # noqa: B023
        finally:
            over = True
        scraping.result(30)
    assert set(seen) == {10.0}
    wait_until(lambda: is_tidy(server, folder), "only files of those who serve are left")


def ended_process() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def write(file: Path, **values: float) -> None:
    written = MmapedDict(str(file))  # type: ignore[no-untyped-call]
    for key, value in values.items():
        written.write_value(json.dumps(key), value, 0.0)  # type: ignore[no-untyped-call]
    written.close()  # type: ignore[no-untyped-call]


def read(file: Path) -> dict[str, float]:
    found = MmapedDict.read_all_values_from_file(str(file))  # type: ignore[no-untyped-call]
    return {json.loads(key): value for key, value, _, _ in found}


def test_values_of_ended_processes_are_added_up_and_those_of_others_left_alone(folder: Path) -> None:
    pid = ended_process()
    write(folder / "counter_dead.db", one=1, two=2)
    write(folder / f"counter_{pid}.db", two=20, three=30)
    write(folder / f"counter_{os.getpid()}.db", one=100)
    write(folder / f"histogram_{pid}.db", some=1)
    metric_files.fold_ended(folder, pid)
    assert read(folder / "counter_dead.db") == {"one": 1, "two": 22, "three": 30}
    assert read(folder / "histogram_dead.db") == {"some": 1}
    assert files(folder) == {"counter_dead.db", "histogram_dead.db", f"counter_{os.getpid()}.db"}


def test_a_number_that_was_given_again_keeps_no_file_of_the_process_that_ended(folder: Path) -> None:
    write(folder / f"counter_{os.getpid()}.db", one=1)
    metric_files.fold_ended(folder, os.getpid())
    assert files(folder) == {"counter_dead.db"}


def test_while_a_scrape_reads_nothing_moves_and_the_next_call_catches_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_files, "PATIENCE", 0.0)
    first, second = ended_process(), ended_process()
    write(folder / f"counter_{first}.db", one=1)
    with metric_files.reading(folder), metric_files.reading(folder):
        metric_files.fold_ended(folder, first)
        assert files(folder) == {f"counter_{first}.db"}
    metric_files.fold_ended(folder, second)
    assert files(folder) == {"counter_dead.db"}


@pytest.mark.parametrize(
    "left", [b"", b"\0" * 4, b"\xff\x7f\0\0" + b"\0" * 100], ids=["empty", "cut", "wrong"]
)
def test_a_file_that_its_process_left_unfinished_is_no_obstacle(folder: Path, left: bytes) -> None:
    pid = ended_process()
    (folder / f"histogram_{pid}.db").write_bytes(left)
    write(folder / f"counter_{pid}.db", one=1)
    metric_files.fold_ended(folder, pid)
    assert (read(folder / "counter_dead.db"), read(folder / "histogram_dead.db")) == ({"one": 1}, {})
    assert files(folder) == {"counter_dead.db", "histogram_dead.db"}
