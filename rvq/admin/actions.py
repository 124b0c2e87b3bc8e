"""The sub-commands of `rvq admin` that ask the API; each prints and returns the exit status."""

from __future__ import annotations

import argparse
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
STATUSES = ("queued", "running", "scheduled", "claimed", "succeeded", "failed", "cancelled")


def reset(client: Client, arguments: argparse.Namespace) -> int:
    if arguments.confirm != "reset":
        raise CommandError("this empties everything; to mean it, add --confirm reset")
    client.post("admin", "reset", body={"confirm": "reset"})
    print("everything is empty")
    return 0


def retry(client: Client, arguments: argparse.Namespace) -> int:
    return _print_task(client.post("admin", "tasks", arguments.task, "retry"))


def cancel(client: Client, arguments: argparse.Namespace) -> int:
    return _print_task(client.post("admin", "tasks", arguments.task, "cancel"))


def queue(client: Client, arguments: argparse.Namespace) -> int:
    if arguments.paused is None:
        found = client.get("admin", "queues", arguments.queue)
    else:
        found = client.post("admin", "queues", arguments.queue, body={"paused": arguments.paused})
    state = "paused: takes new sub_tasks, hands none out" if found["paused"] else "open"
    print(
        facts(
            [("queue", found["queue"]), ("state", state), *_picked(found, "scheduled", "queued", "claimed")]
        )
    )
    return 0


def list_deliveries(client: Client, arguments: argparse.Namespace) -> int:
    """Print as many as asked for, newest first."""
    filters = {"status": arguments.status, "host": arguments.host, "since": arguments.since}
    found = client.pages("admin", "deliveries", most=arguments.limit, **filters)
    print(table(DELIVERY, [[one[name] for name in DELIVERY] for one in found]))
    return 0


def redeliver(client: Client, arguments: argparse.Namespace) -> int:
    for delivery in arguments.delivery:
        client.post("admin", "deliveries", delivery, "redeliver")
        print(f"{delivery} is due now")
    return 0


def redeliver_many(client: Client, arguments: argparse.Namespace) -> int:
    """Send all that match again; return 1 when one call did not do them all."""
    given = {"status": arguments.status, "host": arguments.host, "since": arguments.since}
    body = {name: value for name, value in given.items() if value is not None}
    found = client.post("admin", "deliveries", "redeliver", body={**body, "dry_run": arguments.dry_run})
    verb = "would be sent" if arguments.dry_run else "are due"
    count = found["matched"] if arguments.dry_run else found["redelivered"]
    print(f"{count} deliveries {verb} again")
    if not found["complete"]:
        print("there may be more: run it again")
    return 0 if found["complete"] else 1


def audit(client: Client, arguments: argparse.Namespace) -> int:
    """Compare the counters with the truth; return 1 when some differ and are left so."""
    found = client.get("admin", "audit")
    rows = [
        [one["queue"], one["counter"], one["counted"], one["truth"], one["counted"] - one["truth"] or ""]
        for one in found["counters"]
        if arguments.all or one["counted"] != one["truth"]
    ]
    if rows:
        print(table(("queue", "counter", "counted", "truth", "drift"), rows))
    print(f"{len(found['counters'])} counters, {found['drift']} differ from the truth")
    if found["drift"] and arguments.repair:
        print(f"{client.post('admin', 'audit', 'repair')['repaired']} repaired")
        return 0
    return 1 if found["drift"] else 0


def stats(client: Client, _arguments: argparse.Namespace) -> int:
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
    counted = [(name, values.get(f"rvq_{name}", {})) for name in ("tasks", "sub_tasks")]
    print(
        table(
            ("", *STATUSES), [[name, *(found.get(status) for status in STATUSES)] for name, found in counted]
        )
    )
    print()
    deliveries = values.get("rvq_deliveries", {})
    print(facts((f"deliveries {status}", count) for status, count in deliveries.items()))
    print(facts([("oldest queued", f"{single.get('rvq_oldest_queued_seconds', 0):.1f} s")]))
    return 0


def _print_task(task: Any) -> int:
    counts = [(name, count) for name, count in task["counts"].items() if count]
    print(facts([*_picked(task, "id", "status", "queue", "created_at", "finished_at"), *counts]))
    return 0


def _picked(found: Any, *names: str) -> list[tuple[str, object]]:
    return [(name, found[name]) for name in names]
