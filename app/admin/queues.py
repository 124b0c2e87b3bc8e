"""Reading, pausing and resuming a queue."""

from __future__ import annotations

import logging
import re

import msgspec
from msgspec import Struct

from app.admin.schemas import Queue
from app.admin.store import Store
from app.web.fields import QUEUE_PATTERN
from app.web.problems import NotFound, already_done
from app.web.request import Request
from app.web.response import Response, json_response
from app.web.routes import Context, Routes

routes = Routes()

log = logging.getLogger("rvq.admin")

_QUEUE = re.compile(QUEUE_PATTERN, re.ASCII)


class QueueBody(Struct, forbid_unknown_fields=True):
    """A paused queue takes new sub_tasks and hands none out."""

    paused: bool


DECODER = msgspec.json.Decoder(QueueBody)


@routes.get("/v1/admin/queues/<queue>", Queue, problems=(NotFound,))
def read_queue(context: Context[Store], _request: Request, queue: str) -> Response:
    """Read a queue.

    A queue that nobody used yet is empty and not paused.
    """
    _require_name(queue)
    return _respond(context, queue)


@routes.post("/v1/admin/queues/<queue>", Queue, body=QueueBody, problems=(NotFound,))
def set_queue(context: Context[Store], request: Request, queue: str) -> Response:
    """Pause or resume a queue."""
    _require_name(queue)
    paused = request.json(DECODER).value.paused
    context.store.set_queue_paused(queue, paused)
    done = "paused" if paused else "resumed"
    log.info("queue %s", done, extra={"queue": queue})
    with already_done(f"the queue was {done}"):
        return _respond(context, queue)


def _require_name(queue: str) -> None:
    if not _QUEUE.match(queue):
        raise NotFound("no queue can have this name")


def _respond(context: Context[Store], queue: str) -> Response:
    return json_response(context.store.read_queue(queue))
