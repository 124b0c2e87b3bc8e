"""One task is created, a worker is killed half-way, and every result is compared with the truth."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rvq.client import Client
from rvq.demo.inputs import Facts, Sum
from rvq.demo.stack import DemoStack
from rvq.errors import CommandError
from rvq.local.processes import Process

FINISH_SECONDS = 120
WEBHOOK_SECONDS = 30
LOOK_SECONDS = 0.05


@dataclass
class DemoResult:
    """What the demo saw; `problems` is empty when everything was as it should be."""

    task_id: str
    seconds: float
    killed: str = ""
    orphans: list[str] = field(default_factory=list)
    found: Sum | None = None
    webhook_id: str = ""
    problems: list[str] = field(default_factory=list)


def play(stack: DemoStack, files: list[Path]) -> DemoResult:
    """Create the task, kill a worker half-way, wait for the webhook, compare everything."""
    partner = stack.rvq.client("partner")
    started = time.monotonic()
    result = DemoResult(_create(partner, files, f"{stack.receiver.origin}/hooks"), 0)
    print(f"task {result.task_id}: {len(files)} sub_tasks, one for each file")
    _follow(partner, stack, result)
    if not stack.receiver.wait(WEBHOOK_SECONDS):
        result.problems.append(f"no verified webhook in {WEBHOOK_SECONDS} s")
    result.seconds = time.monotonic() - started
    _check_webhook(stack, result, len(files))
    _check_results(partner, result, files)
    return result


def _create(partner: Client, files: list[Path], webhook_url: str) -> str:
    """Create one task with a sub_task for each file; return its id."""
    body = {
        "queue": "files",
        "webhook_url": webhook_url,
        "metadata": {"demo": "the standard library"},
        "sub_tasks": [{"payload": {"path": str(path)}} for path in files],
    }
    return str(partner.post("tasks", body=body)["id"])


def _follow(partner: Client, stack: DemoStack, result: DemoResult) -> None:
    """Show progress until the task ends; when half is done, kill a worker that holds sub_tasks."""
    give_up = time.monotonic() + FINISH_SECONDS
    while (task := partner.get("tasks", result.task_id))["status"] in ("queued", "running"):
        _progress(task["counts"])
        if not result.killed and task["counts"]["succeeded"] * 2 >= task["counts"]["total"]:
            _kill_one(partner, stack, result)
        if time.monotonic() > give_up:
            raise CommandError(f"the task did not end in {FINISH_SECONDS} s: {task['counts']}")
        time.sleep(LOOK_SECONDS)
    _progress(task["counts"], last=True)


def _kill_one(partner: Client, stack: DemoStack, result: DemoResult) -> None:
    """Send SIGKILL to a worker in the middle of its work; frozen first, it is sure to hold some."""
    for worker in stack.workers:
        worker.signal(signal.SIGSTOP)
        if not _held_by(worker, partner, result):
            worker.signal(signal.SIGCONT)
            continue
        worker.kill()
        orphans = _held_by(worker, partner, result)
        # A report that it had sent may still be on its way: what it leaves is what stays.
        while orphans != (orphans := _held_by(worker, partner, result)):
            time.sleep(LOOK_SECONDS)
        result.killed, result.orphans = f"{worker.name} (pid {worker.pid})", orphans
        print(f"\nkilled {result.killed} with SIGKILL; it held {len(orphans)} sub_tasks")
        return


def _held_by(worker: Process, partner: Client, result: DemoResult) -> list[str]:
    """Return the ids of the sub_tasks that it has claimed: its pid is in its worker_id."""
    claimed = partner.pages("tasks", result.task_id, "sub_tasks", status="claimed")
    return [s["id"] for s in claimed if f"-{worker.pid}-" in (s["worker_id"] or "")]


def _check_webhook(stack: DemoStack, result: DemoResult, total: int) -> None:
    receiver = stack.receiver
    if receiver.forged:
        result.problems.append(f"{receiver.forged} webhooks with a wrong signature")
    if len(set(receiver.ids)) > 1:
        result.problems.append(f"{len(set(receiver.ids))} different events for one task")
    if not receiver.events:
        return
    result.webhook_id = receiver.ids[0]
    event = receiver.events[0]
    told = (event["type"], event["data"]["task_id"], event["data"]["counts"]["succeeded"])
    if told != ("task.succeeded", result.task_id, total):
        result.problems.append(f"the webhook tells something else: {told}")


def _check_results(partner: Client, result: DemoResult, files: list[Path]) -> None:
    """Compare every result, and their sums, with the truth, which is worked out here without RVQ."""
    results = list(partner.pages("tasks", result.task_id, "sub_tasks"))
    truth = [Facts.of(path) for path in files]
    for path, expected, sub_task in zip(files, truth, results, strict=False):
        if sub_task["result"] != expected.as_json():
            result.problems.append(f"{path}: {sub_task['status']}, {sub_task['result']}")
    result.found = Sum.of(Facts(**s["result"]) for s in results if s["result"])
    if result.found != Sum.of(truth):
        result.problems.append(f"sums differ: {result.found} is not {Sum.of(truth)}")
    result.problems += _not_taken_over(result, results)


def _not_taken_over(result: DemoResult, results: list[dict[str, Any]]) -> list[str]:
    if not result.killed:
        return ["no worker could be killed while it held sub_tasks"]
    attempts = {s["id"]: s["attempt"] for s in results}
    return [f"{id} was not taken over" for id in result.orphans if attempts.get(id, 0) < 2]


def _progress(counts: dict[str, int], *, last: bool = False) -> None:
    """Show one line that is rewritten on a terminal; elsewhere only the last one."""
    done = counts["succeeded"] + counts["failed"] + counts["cancelled"]
    line = f"{done:5} of {counts['total']} done, {counts['claimed']:4} claimed, {counts['queued']:5} queued"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if last else "", flush=True)
    elif last:
        print(line)
