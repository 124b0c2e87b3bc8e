"""Looking at a queue, pausing and resuming it."""

from __future__ import annotations

import logging
import re

import msgspec
from msgspec import Struct

from app.admin.scope import Scope
from app.admin.shapes import Queue
from app.answers import Answer, answer
from app.fields import QUEUE_PATTERN
from app.incoming import Incoming
from app.problems import NotFound
from app.routes import Route

log = logging.getLogger("rvq.admin")

_QUEUE = re.compile(QUEUE_PATTERN, re.ASCII)


class QueueBody(Struct, forbid_unknown_fields=True):
    """A paused queue takes new sub_tasks and hands none out."""

    paused: bool


DECODER = msgspec.json.Decoder(QueueBody)


def read_queue(scope: Scope, _incoming: Incoming, queue: str) -> Answer:
    _require_name(queue)
    return _answer(scope, queue)


def set_queue(scope: Scope, incoming: Incoming, queue: str) -> Answer:
    _require_name(queue)
    paused = incoming.json(DECODER).value.paused
    scope.store.set_queue_paused(queue, paused)
    log.info("queue %s", "paused" if paused else "resumed", extra={"queue": queue})
    return _answer(scope, queue)


def _require_name(queue: str) -> None:
    if not _QUEUE.match(queue):
        raise NotFound("no queue can have this name")


def _answer(scope: Scope, queue: str) -> Answer:
    row = scope.store.read_queue(queue)
    return answer(msgspec.json.encode({"queue": queue, **row._asdict()}))


ROUTES = (
    Route(
        "GET",
        "/v1/admin/queues/<queue>",
        read_queue,
        "Look at a queue",
        answers={200: Queue},
        problems=(NotFound,),
        detail="A queue that nobody used yet is empty and not paused.",
    ),
    Route(
        "POST",
        "/v1/admin/queues/<queue>",
        set_queue,
        "Pause or resume a queue",
        answers={200: Queue},
        body=QueueBody,
        problems=(NotFound,),
    ),
)
