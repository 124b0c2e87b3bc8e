"""Real worker processes and real signals."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker_sdk.api import PATIENCE, Reply, ScriptedAPI
from tests.worker_sdk.conftest import Start
from tests.worker_sdk.processes import ROOT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_work_finish_and_its_result_arrive(
    api: ScriptedAPI, start: Start, number: int
) -> None:
    sub_task_id, waiting = api.rvq.submit(1), api.rvq.submit(2)
    worker = start("Waits")
    worker.wait_for("started")
    worker.signal(number)
    worker.say("done")
    assert worker.exit_status() == 0
    assert api.rvq.sub_task(sub_task_id).result == "done"
    assert (api.rvq.sub_task(waiting).status, api.rvq.sub_task(waiting).attempt) == ("queued", 0)
    assert "teardown" in worker.output()


def test_work_that_does_not_end_in_time_is_released_uncharged(api: ScriptedAPI, start: Start) -> None:
    sub_task_id = api.rvq.submit(1)
    worker = start("Deaf")
    worker.wait_for("started")
    worker.signal(signal.SIGTERM)
    assert worker.exit_status() == 0
    assert (api.rvq.sub_task(sub_task_id).status, api.rvq.sub_task(sub_task_id).attempt) == ("queued", 0)


def test_work_that_stops_when_the_grace_is_over_is_released_uncharged(api: ScriptedAPI, start: Start) -> None:
    sub_task_id = api.rvq.submit(1)
    worker = start("Obeys")
    worker.wait_for("started")
    worker.signal(signal.SIGTERM)
    worker.wait_for("obeyed")
    assert worker.exit_status() == 0
    assert (api.rvq.sub_task(sub_task_id).status, api.rvq.sub_task(sub_task_id).attempt) == ("queued", 0)
    assert "teardown" in worker.output()


def test_a_deaf_process_is_killed_when_the_grace_is_over(api: ScriptedAPI, start: Start) -> None:
    sub_task_id = api.rvq.submit(1)
    worker = start("DeafProcess")
    child = int(worker.wait_for("started")[2])
    worker.signal(signal.SIGTERM)
    assert worker.exit_status() == 0
    assert api.rvq.sub_task(sub_task_id).status == "queued"
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_second_signal_leaves_at_once(api: ScriptedAPI, start: Start) -> None:
    api.rvq.submit(1)
    worker = start("Waits")
    worker.wait_for("started")
    worker.signal(signal.SIGTERM)
    worker.signal(signal.SIGINT)
    assert worker.exit_status() in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert "leaving at once" in worker.errors()


def test_a_killed_worker_leaves_no_process_behind_and_its_work_goes_on_elsewhere(
    api: ScriptedAPI, start: Start
) -> None:
    sub_task_id = api.rvq.submit(1)
    first = start("DeafProcess")
    first.wait_for("started")
    first.signal(signal.SIGKILL)
    assert first.exit_status() == -signal.SIGKILL
    first.output()  # ends only when the last process that could write to it is gone
    second = start("Waits")
    second.wait_for("started")
    second.say("done")
    second.signal(signal.SIGTERM)
    assert second.exit_status() == 0
    assert (api.rvq.sub_task(sub_task_id).result, api.rvq.sub_task(sub_task_id).attempt) == ("done", 2)


def test_results_that_cannot_be_delivered_at_the_end_are_told_by_the_exit_status(
    api: ScriptedAPI, start: Start
) -> None:
    api.judge = lambda request: Reply(503) if request.verb == "complete" else None
    api.rvq.submit(1)
    worker = start("Hasty")
    worker.wait_for("started")
    worker.signal(signal.SIGTERM)
    worker.say("done")
    assert worker.exit_status() == 1
    assert "could not be delivered" in worker.errors()


def test_a_refused_token_ends_the_worker_with_a_reason(api: ScriptedAPI, start: Start) -> None:
    api.judge = lambda _: Reply(404, b'{"code": "api_disabled", "detail": "no worker token is configured"}')
    worker = start("Waits")
    assert worker.exit_status() == 1
    assert "api_disabled" in worker.errors()


def test_until_empty_ends_by_itself_with_everything_done(api: ScriptedAPI, start: Start) -> None:
    for number in range(50):
        api.rvq.submit(number, queue="numbers")
    worker = start(
        "Double", "--until-empty", "--queue", "numbers", "--concurrency", "8", "--log-format", "json"
    )
    assert worker.exit_status() == 0
    assert [one.result for one in api.rvq.sub_tasks()] == [number * 2 for number in range(50)]
    assert '"message": "worker ' in worker.errors()


def test_a_fork_that_a_handler_terminates_does_not_stop_the_worker(api: ScriptedAPI, start: Start) -> None:
    ids = [api.rvq.submit(number) for number in range(3)]
    worker = start("Terminated", "--until-empty")
    assert worker.exit_status() == 0
    assert [api.rvq.sub_task(one).result for one in ids] == [-signal.SIGTERM] * 3


def test_wrong_settings_are_all_listed_with_status_two(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "worker_sdk", "tests.worker_sdk.handlers:Double"],
        env={"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "rvq-worker: RVQ_URL is not set",
        "rvq-worker: RVQ_WORKER_TOKEN is not set",
    ]


def test_run_makes_a_script_a_worker(api: ScriptedAPI, tmp_path: Path) -> None:
    """Run a script as in the README: the class stands in the script itself, and runs in processes too."""
    script = tmp_path / "count.py"
    script.write_text(
        "from worker_sdk import Handler\n"
        "class Count(Handler):\n"
        "    executor = 'process'\n"
        "    concurrency = 1\n"
        "    def handle(self, sub_task):\n"
        "        return len(sub_task.payload)\n"
        "if __name__ == '__main__':\n"
        "    Count.run()\n"
    )
    sub_task_id = api.rvq.submit([1, 2, 3])
    process = subprocess.Popen([sys.executable, script], env={"PYTHONPATH": str(ROOT), **api.environ})
    try:
        api.wait_until(lambda: api.rvq.sub_task(sub_task_id).status == "succeeded")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
    assert api.rvq.sub_task(sub_task_id).result == 3
