"""A partner who makes tasks, gets webhooks, reads the feed, and keeps its cursor over whatever happens."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.dispatcher.receiver import Receiver
from tests.e2e.rig import PATIENCE, Rvq
from tests.support.concurrency import wait_until


class Reader:
    """One who reads the feed: events by id, as last seen, and how often it was told to begin anew."""

    def __init__(self, rvq: Rvq) -> None:
        self._rvq = rvq
        self._cursor = ""
        self.events: dict[str, Any] = {}
        self.new: list[str] = []
        self.told = 0

    def read(self) -> None:
        """Read what is new; begin anew when told to. `new` has the ids that came."""
        self.new = []
        while True:
            response = self._rvq.call("GET", f"/v1/events?limit=7&cursor={self._cursor}")
            if response.status == 409:
                assert response.json["code"] == "history_changed"
                self.told += 1
                self._cursor, self.events, self.new = "", {}, []
                continue
            page = response.expect(200)
            for event in page["items"]:
                assert event["id"] not in self.events
                self.events[event["id"]] = event
                self.new.append(event["id"])
            if page["next_cursor"] is None:
                return
            self._cursor = page["next_cursor"]

    def wait_for(self, tasks: Iterable[str]) -> None:
        """Read until an end of each of these tasks has been seen; `new` has all that came meanwhile."""
        wanted, came = set(tasks), list[str]()

        def seen() -> bool:
            self.read()
            came.extend(self.new)
            return wanted <= {event["data"]["task_id"] for event in self.events.values()}

        wait_until(seen, "the feed has every event", PATIENCE)
        self.new = came


class Partner:
    """The tasks of one partner, whose sub_tasks are done by hand."""

    def __init__(self, rvq: Rvq, receiver: Receiver) -> None:
        self._rvq = rvq
        self._receiver = receiver

    def create(self, count: int) -> list[str]:
        return [self._rvq.create([1], webhook_url=self._receiver.url()) for _ in range(count)]

    def finish(self, tasks: Iterable[str]) -> None:
        """Have these tasks, and whatever else is queued, succeed; wait until they are told about."""
        wanted, before = set(tasks), len(self._receiver.ids())

        def ended() -> bool:
            claim = {"worker_id": "w", "limit": 1000, "lease_seconds": 600, "queues": ["e2e"]}
            claimed = self._rvq.worker("claim", claim)["sub_tasks"]
            results = [
                {"id": one["id"], "lease_token": one["lease_token"], "status": "succeeded"} for one in claimed
            ]
            if results:
                self._rvq.worker("complete", {"worker_id": "w", "results": results})
            return all(self._rvq.task(task)["status"] == "succeeded" for task in wanted)

        wait_until(ended, "the tasks have succeeded", PATIENCE)
        wait_until(lambda: wanted <= self._told_since(before), "the tasks are told about", PATIENCE)

    def _told_since(self, index: int) -> set[str]:
        return {str(json.loads(one.body)["data"]["task_id"]) for one in self._receiver.received[index:]}


def bodies_by_id(receiver: Receiver) -> dict[str, set[bytes]]:
    """Return the bodies that came under each webhook-id: an id that means one thing has one."""
    found: defaultdict[str, set[bytes]] = defaultdict(set)
    for one in receiver.received:
        found[one.id].add(one.body)
    return found
