"""The sub-commands of `rvq admin` that ask the API; each prints and returns the exit status.

With `--json` it prints what the API answered, one JSON document a line.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rvq.client import Client
from rvq.errors import CommandError
from rvq.tables import facts, table

DELIVERY = (
    "id",
    "task_id",
    "status",
    "attempts",
    "last_outcome",
    "last_status_code",
    "next_attempt_at",
    "url",
)
COUNTED = ("tasks", "sub_tasks", "deliveries")
STATUSES = ("queued", "running", "scheduled", "claimed", "succeeded", "failed", "cancelled")


def reset(client: Client, arguments: argparse.Namespace) -> int:
    if arguments.confirm != "reset":
        raise CommandError("this empties everything; to mean it, add --confirm reset")
    found = client.post("admin", "reset", body={"confirm": "reset"})
    _show(arguments, found, "everything is empty")
    return 0


def retry(client: Client, arguments: argparse.Namespace) -> int:
    return _show_task(arguments, client.post("admin", "tasks", arguments.task, "retry"))


def cancel(client: Client, arguments: argparse.Namespace) -> int:
    return _show_task(arguments, client.post("admin", "tasks", arguments.task, "cancel"))


def queue(client: Client, arguments: argparse.Namespace) -> int:
    if arguments.paused is None:
        found = client.get("admin", "queues", arguments.queue)
    else:
        found = client.post("admin", "queues", arguments.queue, body={"paused": arguments.paused})
    state = "paused: takes new sub_tasks, hands none out" if found["paused"] else "open"
    counts = _picked(found, "scheduled", "queued", "claimed")
    _show(arguments, found, facts([("queue", found["queue"]), ("state", state), *counts]))
    return 0


def list_deliveries(client: Client, arguments: argparse.Namespace) -> int:
    """Print as many as asked for, newest first."""
    filters = {"status": arguments.status, "host": arguments.host, "since": arguments.since}
    found = list(client.pages("admin", "deliveries", most=arguments.limit, **filters))
    _show(arguments, found, table(DELIVERY, [[one[name] for name in DELIVERY] for one in found]))
    return 0


def redeliver(client: Client, arguments: argparse.Namespace) -> int:
    for delivery in arguments.delivery:
        found = client.post("admin", "deliveries", delivery, "redeliver")
        _show(arguments, found, f"{delivery} is due now")
    return 0


def redeliver_many(client: Client, arguments: argparse.Namespace) -> int:
    """Send all that match again; return 1 when one call did not do them all."""
    given = {"status": arguments.status, "host": arguments.host, "since": arguments.since}
    body = {name: value for name, value in given.items() if value is not None}
    found = client.post("admin", "deliveries", "redeliver", body={**body, "dry_run": arguments.dry_run})
    verb = "would be sent" if arguments.dry_run else "are due"
    count = found["matched"] if arguments.dry_run else found["redelivered"]
    more = "" if found["complete"] else "\nthere may be more: run it again"
    _show(arguments, found, f"{count} deliveries {verb} again{more}")
    return 0 if found["complete"] else 1


def audit(client: Client, arguments: argparse.Namespace) -> int:
    """Compare the counters with the truth; return 1 when some differ and are left so."""
    found = client.get("admin", "audit")
    _show(arguments, found, _audited(found, show_all=arguments.all))
    if found["drift"] and arguments.repair:
        repaired = client.post("admin", "audit", "repair")
        _show(arguments, repaired, f"{repaired['repaired']} repaired")
        return 0
    return 1 if found["drift"] else 0


def _audited(found: Any, *, show_all: bool) -> str:
    rows = [
        [one["queue"], one["counter"], one["counted"], one["truth"], one["counted"] - one["truth"] or ""]
        for one in found["counters"]
        if show_all or one["counted"] != one["truth"]
    ]
    shown = table(("queue", "counter", "counted", "truth", "drift"), rows) + "\n" if rows else ""
    return f"{shown}{len(found['counters'])} counters, {found['drift']} differ from the truth"


def stats(client: Client, arguments: argparse.Namespace) -> int:
    """Print tasks, sub_tasks and deliveries by status. Raises CommandError when the API has none."""
    values: dict[str, dict[str, int]] = {}
    single: dict[str, float] = {}
    for family in text_string_to_metric_families(client.metrics()):
        for sample in family.samples:
            if "status" in sample.labels and set(sample.labels) == {"status"}:
                values.setdefault(sample.name, {})[sample.labels["status"]] = int(sample.value)
            elif not sample.labels:
                single[sample.name] = sample.value
    if not single.get("rvq_database_up"):
        raise CommandError("the API is up, and its database is away")
    if "rvq_tasks" not in values:
        raise CommandError("the API is up, and its database can't count in time: is a dispatcher running?")
    found: dict[str, Any] = {name: values.get(f"rvq_{name}", {}) for name in COUNTED}
    found["oldest_queued_seconds"] = single.get("rvq_oldest_queued_seconds", 0.0)
    _show(arguments, found, _counted(found))
    return 0


def _counted(found: dict[str, Any]) -> str:
    rows = [[name, *(found[name].get(status) for status in STATUSES)] for name in ("tasks", "sub_tasks")]
    others = [(f"deliveries {status}", count) for status, count in found["deliveries"].items()]
    oldest = ("oldest queued", f"{found['oldest_queued_seconds']:.1f} s")
    return f"{table(('', *STATUSES), rows)}\n\n{facts([*others, oldest])}"


def _show(arguments: argparse.Namespace, found: Any, text: str) -> None:
    print(json.dumps(found) if arguments.json else text)


def _show_task(arguments: argparse.Namespace, task: Any) -> int:
    counts = [(name, count) for name, count in task["counts"].items() if count]
    text = facts([*_picked(task, "id", "status", "queue", "created_at", "finished_at"), *counts])
    _show(arguments, task, text)
    return 0


def _picked(found: Any, *names: str) -> list[tuple[str, object]]:
    return [(name, found[name]) for name in names]
