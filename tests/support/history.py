"""What clients saw of RVQ, with times, and what must be true of it whatever was killed meanwhile.

Every client notes each call twice: when it is about to send it, and when it has the answer. A call without
an answer may have been carried out or not, and the checks allow for both. `faults` compares all of it with
what RVQ says afterwards: nothing lost, one effective completion a sub_task, one event for each finished
task, no lease granted while another one held.

Times are those of the machine's clock (`time.time()`), which PostgreSQL on the same machine has too.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

ENDED = ("succeeded", "failed", "cancelled")
FOR_GOOD = ("succeeded", "failed")


@dataclass(frozen=True)
class Entry:
    """One call: create, claim, complete, heartbeat, release, webhook or clock. `answered` None: never.

    A webhook's request is {id, body}; a clock's is {seconds}: how far the database's clock is put ahead.
    """

    call: str
    sent: float
    request: Any
    answered: float | None = None
    status: int | None = None
    answer: Any = None


class Recorder:
    """Appends to a file, one line a write, so that a killed process leaves all it had noted. Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._numbers = itertools.count()
        self._lock = threading.Lock()

    def call(self, name: str, request: Any, send: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        """Note the call around `send`, which gives status and decoded answer, or raises."""
        with self._lock:
            number = next(self._numbers)
        self._write({"number": number, "call": name, "sent": time.time(), "request": request})
        status, answer = send()
        self._write({"number": number, "answered": time.time(), "status": status, "answer": answer})
        return status, answer

    def _write(self, line: Mapping[str, Any]) -> None:
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")


def read(files: Iterable[Path]) -> list[Entry]:
    """All calls of all clients, in the order in which they were sent."""
    found = [entry for file in files for entry in _read(file)]
    return sorted(found, key=lambda entry: entry.sent)


def _read(file: Path) -> Iterator[Entry]:
    calls: dict[int, dict[str, Any]] = {}
    for line in file.read_bytes().splitlines():
        note = json.loads(line)
        calls.setdefault(note.pop("number"), {}).update(note)
    yield from (Entry(**call) for call in calls.values())


@dataclass(frozen=True)
class Final:
    """What RVQ says when all has ended: tasks and sub_tasks by id, and all events in the feed's order."""

    tasks: Mapping[str, Any]
    sub_tasks: Mapping[str, Any]
    events: list[Any] = field(default_factory=list)


def faults(history: list[Entry], final: Final) -> list[str]:
    """Every promise that was not kept, in words; empty when all were."""
    checks = (
        lost_tasks,
        doubled_tasks,
        open_ends,
        lost_outcomes,
        doubled_outcomes,
        wrong_events,
        wrong_webhooks,
    )
    found = [fault for check in checks for fault in check(history, final)]
    return found + list(doubled_leases(history))


def lost_tasks(history: list[Entry], final: Final) -> Iterator[str]:
    for entry in of(history, "create"):
        if entry.status in (200, 201) and entry.answer["id"] not in final.tasks:
            yield f"task {entry.answer['id']} was taken and is not there"


def doubled_tasks(history: list[Entry], final: Final) -> Iterator[str]:
    """By the Idempotency-Key, which the clients put into the metadata too."""
    keys = Counter(task["metadata"]["key"] for task in final.tasks.values())
    yield from (f"key {key} made {count} tasks" for key, count in keys.items() if count > 1)
    sent = {entry.request["metadata"]["key"] for entry in of(history, "create")}
    yield from (f"nobody sent key {key}" for key in keys.keys() - sent)


def open_ends(history: list[Entry], final: Final) -> Iterator[str]:
    for what in (final.tasks, final.sub_tasks):
        yield from (f"{id_} is {one['status']}" for id_, one in what.items() if one["status"] not in ENDED)
    for id_, task in final.tasks.items():
        mine = Counter(one["status"] for one in final.sub_tasks.values() if one["task_id"] == id_)
        counted = {status: count for status, count in task["counts"].items() if count and status != "total"}
        if mine != counted:
            yield f"{id_} counts {counted} and has {dict(mine)}"


def lost_outcomes(history: list[Entry], final: Final) -> Iterator[str]:
    """What was answered as stored is what is there; and what is there, somebody reported."""
    reported = defaultdict(list)
    for report, outcome in reports(history):
        reported[report["id"]].append(report)
        sub_task = final.sub_tasks.get(report["id"])
        if outcome in FOR_GOOD and (sub_task is None or sub_task["status"] != outcome):
            yield f"{report['id']} was stored as {outcome} and is {sub_task and sub_task['status']}"
        if outcome == "succeeded" and sub_task is not None and sub_task["result"] != report.get("result"):
            yield f"{report['id']} has another result than the one that was stored"
    for id_, sub_task in final.sub_tasks.items():
        results = [one.get("result") for one in reported[id_] if one["status"] == "succeeded"]
        if sub_task["status"] == "succeeded" and sub_task["result"] not in results:
            yield f"{id_} has a result that nobody reported"


def doubled_outcomes(history: list[Entry], final: Final) -> Iterator[str]:
    """A lease is reported with effect at most once, and a sub_task ends at most once."""
    ends: Counter[str] = Counter()
    leases: Counter[tuple[str, str]] = Counter()
    for report, outcome in reports(history):
        if outcome in (*FOR_GOOD, "retrying"):
            leases[report["id"], report["lease_token"]] += 1
        if outcome in FOR_GOOD:
            ends[report["id"]] += 1
    yield from (f"{id_} ended {count} times" for id_, count in ends.items() if count > 1)
    yield from (f"one lease of {id_} had {n} effective reports" for (id_, _), n in leases.items() if n > 1)


def wrong_events(history: list[Entry], final: Final) -> Iterator[str]:
    """Exactly one for each task that ended (nobody retries one here), and it says what the task says."""
    events = defaultdict(list)
    for event in final.events:
        events[event["data"]["task_id"]].append(event)
    for id_, task in final.tasks.items():
        if len(events[id_]) != 1:
            yield f"{id_} has {len(events[id_])} events"
        elif events[id_][0]["data"]["status"] != task["status"]:
            yield f"the event of {id_} says another end than the task"
    yield from (f"there is an event of the unknown {id_}" for id_ in events.keys() - final.tasks.keys())


def wrong_webhooks(history: list[Entry], final: Final) -> Iterator[str]:
    """Every event arrived, and whatever arrived more than once did so under one id, with the same bytes."""
    bodies = defaultdict(set)
    for entry in of(history, "webhook"):
        bodies[entry.request["id"]].add(entry.request["body"])
    told = {event["id"]: event for event in final.events}
    yield from (f"event {id_} never arrived" for id_ in told.keys() - bodies.keys())
    yield from (f"webhook {id_} is no event" for id_ in bodies.keys() - told.keys())
    for id_, texts in bodies.items():
        if len(texts) > 1:
            yield f"webhook {id_} came with {len(texts)} bodies"
        elif id_ in told and json.loads(next(iter(texts)))["data"] != told[id_]["data"]:
            yield f"webhook {id_} is not what the feed says"


def doubled_leases(history: list[Entry]) -> Iterator[str]:
    """Each grant has a token of its own, and comes after the one before had run out or was given up."""
    grants = defaultdict(list)
    for entry in of(history, "claim"):
        for lease in (entry.answer or {}).get("sub_tasks", []) if entry.status == 200 else []:
            grants[lease["id"]].append((entry, lease))
    tokens = Counter(lease["lease_token"] for many in grants.values() for _, lease in many)
    yield from (f"token {token} was given out {n} times" for token, n in tokens.items() if n > 1)
    given_up, extended = _given_up(history), _extended(history)
    clock = Clock(history)
    for id_, many in grants.items():
        many.sort(key=lambda grant: grant[1]["lease_expires_at"])
        for (_, before), (entry, after) in itertools.pairwise(many):
            token = before["lease_token"]
            holds_until = max([moment(before["lease_expires_at"]), *extended[token]])
            assert entry.answered is not None
            latest = clock.latest(entry.answered)
            if latest < holds_until and given_up.get(token, float("inf")) > entry.answered:
                early = f"{holds_until - latest:.3f} s too soon"
                yield f"{id_} was leased again (attempt {after['attempt']}) {early}"


class Clock:
    """The database's, which a test may have put ahead."""

    def __init__(self, history: list[Entry]) -> None:
        self._moves = [
            (entry.sent, entry.answered, entry.request["seconds"]) for entry in of(history, "clock")
        ]

    def latest(self, at: float) -> float:
        """What it may have shown at this time of ours, at most."""
        return at + max((seconds for sent, _, seconds in self._moves if sent <= at), default=0.0)

    def earliest(self, at: float) -> float:
        done = (seconds for _, answered, seconds in self._moves if answered is not None and answered <= at)
        return at + max(done, default=0.0)


def _given_up(history: list[Entry]) -> dict[str, float]:
    """When each lease was first reported or released, at the earliest: from then on it may have ended."""
    times: dict[str, float] = {}
    for entry in of(history, "complete", "release"):
        for named in entry.request["results" if entry.call == "complete" else "leases"]:
            times.setdefault(named["lease_token"], entry.sent)
    return times


def _extended(history: list[Entry]) -> dict[str, list[float]]:
    """Until when heartbeats kept each lease, at least."""
    clock, until = Clock(history), defaultdict(list)
    for entry in of(history, "heartbeat"):
        if entry.status == 200:
            for named, told in zip(entry.request["leases"], entry.answer["results"], strict=True):
                if told["outcome"] == "extended":
                    kept = clock.earliest(entry.sent) + entry.request["lease_seconds"]
                    until[named["lease_token"]].append(kept)
    return until


def of(history: list[Entry], *calls: str) -> Iterator[Entry]:
    return (entry for entry in history if entry.call in calls)


def reports(history: list[Entry]) -> Iterator[tuple[Any, str | None]]:
    """Every report of a sub_task that was sent, and what it was answered (None: nothing)."""
    for entry in of(history, "complete"):
        sent = entry.request["results"]
        told = (
            [one["outcome"] for one in entry.answer["results"]] if entry.status == 200 else [None] * len(sent)
        )
        yield from zip(sent, told, strict=True)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
