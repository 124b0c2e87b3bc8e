"""Looking at a queue, pausing and resuming it."""

from __future__ import annotations

import logging
import re

import msgspec
from msgspec import Struct

from app.admin.schemas import Queue
from app.admin.scope import Scope
from app.web.fields import QUEUE_PATTERN
from app.web.problems import NotFound
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route

log = logging.getLogger("rvq.admin")

_QUEUE = re.compile(QUEUE_PATTERN, re.ASCII)


class QueueBody(Struct, forbid_unknown_fields=True):
    """A paused queue takes new sub_tasks and hands none out."""

    paused: bool


DECODER = msgspec.json.Decoder(QueueBody)


def read_queue(scope: Scope, _request: Request, queue: str) -> Response:
    _require_name(queue)
    return _answer(scope, queue)


def set_queue(scope: Scope, request: Request, queue: str) -> Response:
    _require_name(queue)
    paused = request.json(DECODER).value.paused
    scope.store.set_queue_paused(queue, paused)
    log.info("queue %s", "paused" if paused else "resumed", extra={"queue": queue})
    return _answer(scope, queue)


def _require_name(queue: str) -> None:
    if not _QUEUE.match(queue):
        raise NotFound("no queue can have this name")


def _answer(scope: Scope, queue: str) -> Response:
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
