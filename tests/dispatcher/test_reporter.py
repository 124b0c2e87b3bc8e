"""The reporter: the file of metrics, as a collector finds it."""

from __future__ import annotations

from pathlib import Path

from tests.dispatcher.receiver import Receiver
from tests.dispatcher.rig import Tasks, environment, running
from tests.support.concurrency import wait_until
from tests.support.database import Database


def test_the_runtime_directory_gets_the_metrics(database: Database, tmp_path: Path) -> None:
    tasks = Tasks(database.url)
    file = tmp_path / "metrics.prom"
    with (
        Receiver() as receiver,
        running(environment(database.url, receiver.host, RUNTIME_DIRECTORY=str(tmp_path))),
    ):
        tasks.finish(receiver.url(), 3)
        tasks.wait_until_done()
        name = f'dispatcher="{tmp_path.name}"'
        wanted = f'rvq_delivery_attempts_total{{dispatcher="{tmp_path.name}",outcome="delivered"}} 3.0'
        wait_until(lambda: file.exists() and wanted in file.read_text(), "the file tells of it")
        text = file.read_text()
    assert f"rvq_delivery_lag_seconds_count{{{name}}} 3.0" in text
    assert f'rvq_maintenance_last_success_timestamp_seconds{{{name},step="fold_counters"}}' in text
