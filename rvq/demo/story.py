"""What happens in the demo, told while it happens."""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rvq.demo.inputs import Facts, Sum
from rvq.demo.partner import Partner
from rvq.demo.stage import Stage
from rvq.errors import CommandError
from rvq.local.processes import Process

FINISH_SECONDS = 120
WEBHOOK_SECONDS = 30
LOOK_SECONDS = 0.05


@dataclass
class Outcome:
    """What the demo saw. `problems` is empty when everything was as it should be."""

    task_id: str
    seconds: float
    killed: str = ""
    orphans: list[str] = field(default_factory=list)
    found: Sum | None = None
    webhook_id: str = ""
    problems: list[str] = field(default_factory=list)


def play(stage: Stage, files: list[Path]) -> Outcome:
    """Create the task, kill a worker half-way, wait for the webhook, compare everything."""
    partner = Partner(stage.url, stage.partner_token)
    started = time.monotonic()
    outcome = Outcome(partner.create(files, f"{stage.receiver.origin}/hooks"), 0)
    print(f"task {outcome.task_id}: {len(files)} sub_tasks, one for each file")
    _follow(partner, stage, outcome)
    if not stage.receiver.wait(WEBHOOK_SECONDS):
        outcome.problems.append(f"no verified webhook in {WEBHOOK_SECONDS} s")
    outcome.seconds = time.monotonic() - started
    _check_webhook(stage, outcome, len(files))
    _check_results(partner, outcome, files)
    return outcome


def _follow(partner: Partner, stage: Stage, outcome: Outcome) -> None:
    """Show progress until the task ends; when half is done, kill a worker that holds sub_tasks."""
    give_up = time.monotonic() + FINISH_SECONDS
    while (task := partner.task(outcome.task_id))["status"] in ("queued", "running"):
        _progress(task["counts"])
        if not outcome.killed and task["counts"]["succeeded"] * 2 >= task["counts"]["total"]:
            _kill_one(partner, stage, outcome)
        if time.monotonic() > give_up:
            raise CommandError(f"the task did not end in {FINISH_SECONDS} s: {task['counts']}")
        time.sleep(LOOK_SECONDS)
    _progress(task["counts"], last=True)


def _kill_one(partner: Partner, stage: Stage, outcome: Outcome) -> None:
    """SIGKILL to a worker in the middle of its work; frozen first, so that it is sure to hold some."""
    for name, worker in stage.workers.items():
        worker.signal(signal.SIGSTOP)
        if not _held_by(worker, partner, outcome):
            worker.signal(signal.SIGCONT)
            continue
        worker.kill()
        orphans = _held_by(worker, partner, outcome)
        # A report that it had sent may still be on its way: what it leaves is what stays.
        while orphans != (orphans := _held_by(worker, partner, outcome)):
            time.sleep(LOOK_SECONDS)
        outcome.killed, outcome.orphans = f"{name} (pid {worker.pid})", orphans
        print(f"\nkilled {outcome.killed} with SIGKILL; it held {len(orphans)} sub_tasks")
        return


def _held_by(worker: Process, partner: Partner, outcome: Outcome) -> list[str]:
    """Ids of the sub_tasks it has claimed: its pid is in its worker_id."""
    claimed = partner.sub_tasks(outcome.task_id, "claimed")
    return [s["id"] for s in claimed if f"-{worker.pid}-" in (s["worker_id"] or "")]


def _check_webhook(stage: Stage, outcome: Outcome, total: int) -> None:
    receiver = stage.receiver
    if receiver.forged:
        outcome.problems.append(f"{receiver.forged} webhooks with a wrong signature")
    if len(set(receiver.ids)) > 1:
        outcome.problems.append(f"{len(set(receiver.ids))} different events for one task")
    if not receiver.events:
        return
    outcome.webhook_id = receiver.ids[0]
    event = receiver.events[0]
    told = (event["type"], event["data"]["task_id"], event["data"]["counts"]["succeeded"])
    if told != ("task.succeeded", outcome.task_id, total):
        outcome.problems.append(f"the webhook tells something else: {told}")


def _check_results(partner: Partner, outcome: Outcome, files: list[Path]) -> None:
    """Every result against the truth, worked out here without RVQ; and their sums."""
    results = list(partner.sub_tasks(outcome.task_id))
    truth = [Facts.of(path) for path in files]
    for path, expected, sub_task in zip(files, truth, results, strict=False):
        if sub_task["result"] != expected.as_json():
            outcome.problems.append(f"{path}: {sub_task['status']}, {sub_task['result']}")
    outcome.found = Sum.of(Facts(**s["result"]) for s in results if s["result"])
    if outcome.found != Sum.of(truth):
        outcome.problems.append(f"sums differ: {outcome.found} is not {Sum.of(truth)}")
    outcome.problems += _not_taken_over(outcome, results)


def _not_taken_over(outcome: Outcome, results: list[dict[str, Any]]) -> list[str]:
    if not outcome.killed:
        return ["no worker could be killed while it held sub_tasks"]
    attempts = {s["id"]: s["attempt"] for s in results}
    return [f"{id} was not taken over" for id in outcome.orphans if attempts.get(id, 0) < 2]


def _progress(counts: dict[str, int], *, last: bool = False) -> None:
    """One line that is rewritten on a terminal; elsewhere only the last one."""
    done = counts["succeeded"] + counts["failed"] + counts["cancelled"]
    line = f"{done:5} of {counts['total']} done, {counts['claimed']:4} claimed, {counts['queued']:5} queued"
    if sys.stdout.isatty():
        print(f"\r{line}", end="\n" if last else "", flush=True)
    elif last:
        print(line)
