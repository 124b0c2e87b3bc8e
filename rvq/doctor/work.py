"""Checks of the work: queues that stand still, receivers that don't answer, webhooks that were given up."""

from __future__ import annotations

from collections.abc import Iterator

from rvq.doctor.finding import Finding
from rvq.doctor.store import Store

# A worker that is there asks at least once in this time.
UNCLAIMED_SECONDS = 60.0
SHOWN = 20


def of_queues(store: Store) -> Iterator[Finding]:
    """Name the queues in which work waits that nobody will take, and say what lets it go on."""
    queues = store.queues_with_waiting_work()
    still = [
        queue
        for queue in queues
        if queue.is_paused or (not queue.claimed and queue.oldest_seconds > UNCLAIMED_SECONDS)
    ]
    for queue in still[:SHOWN]:
        waiting = (
            f"{queue.queued} sub_tasks wait in {queue.queue}, the oldest for {queue.oldest_seconds:.0f} s"
        )
        text = (
            f"{waiting}: it is paused (rvq admin queue {queue.queue} --resume)"
            if queue.is_paused
            else f"{waiting}, and nobody has any: does a worker ask for this queue?"
        )
        yield Finding("advice", "queues", text)
    if len(still) > SHOWN:
        yield Finding("advice", "queues", f"{len(still) - SHOWN} more queues stand still")
    if not still:
        yield Finding("ok", "queues", f"work waits in {len(queues)}, and none stands still")


def of_hosts(store: Store) -> Iterator[Finding]:
    """Name the receivers that don't answer, and count the webhooks that were given up."""
    hosts = store.broken_hosts()
    for host in hosts[:SHOWN]:
        text = (
            f"{host.host} failed {host.failures} times in a row, so it is tried less often, once a minute at "
            f"least: rvq admin deliveries list --host {host.host} says why"
        )
        yield Finding("advice", "webhooks", text)
    if len(hosts) > SHOWN:
        yield Finding("advice", "webhooks", f"{len(hosts) - SHOWN} more hosts don't answer")
    if dead := store.dead_deliveries():
        text = (
            f"{dead} are dead: rvq admin deliveries list --status dead says why, "
            "rvq admin deliveries bulk sends them again"
        )
        yield Finding("advice", "webhooks", text)
