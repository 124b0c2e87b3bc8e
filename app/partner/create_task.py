"""POST /v1/tasks: checks a task and stores it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from app.partner.store import SEPARATOR, Created, NewTask, Store
from app.settings import Settings
from app.web import metrics
from app.web.fields import DEFAULT_QUEUE, MAX_SUB_TASKS, MaxAttempts, QueueName
from app.web.moments import GivenMoment, to_utc
from app.web.problems import ClockIsOff, DatabaseAway, Fault, IdempotencyConflict, Invalid, Overloaded
from app.web.request import Request
from app.web.response import Deferred, Response, json_response
from app.web.routes import Context, Routes
from app.web.schemas import Policy, Task
from app.web.strict_json import Document, read_json
from app.webhooks.addresses import AddressRefused, Target, check_url

routes = Routes()

MAX_PAYLOAD = 256 * 1024
MAX_METADATA = 16 * 1024
MAX_DEADLINE_SECONDS = 366 * 24 * 3600
DEFAULT_MAX_ATTEMPTS = 5
ADMISSION_RETRY_SECONDS = 5
_KEY = re.compile(r"[\x20-\x7e]{1,255}", re.ASCII)


class SubTaskBody(Struct, forbid_unknown_fields=True):
    """`payload` is any JSON up to 256 KiB, handed to the worker byte for byte."""

    payload: Raw
    max_attempts: MaxAttempts | UnsetType = UNSET


class CompletionBody(Struct, forbid_unknown_fields=True):
    """The rule by which the task ends; `count` (with `at_least`) is the number of successes it takes.

    `deadline_seconds` run from the task's creation, or from `not_before` where that is later.
    """

    policy: Policy = "all"
    count: Annotated[int, Meta(ge=1, le=MAX_SUB_TASKS)] | UnsetType = UNSET
    deadline_seconds: Annotated[float, Meta(gt=0, le=MAX_DEADLINE_SECONDS)] | UnsetType = UNSET


class TaskBody(Struct, forbid_unknown_fields=True):
    """`metadata` is an object up to 16 KiB, which responses and the webhook repeat. Null means none."""

    sub_tasks: Annotated[list[SubTaskBody], Meta(min_length=1, max_length=MAX_SUB_TASKS)]
    webhook_url: str | None = None
    metadata: Raw | UnsetType = UNSET
    queue: QueueName = DEFAULT_QUEUE
    max_attempts: MaxAttempts = DEFAULT_MAX_ATTEMPTS
    not_before: GivenMoment | None = None
    completion: CompletionBody | None = None


DECODER = msgspec.json.Decoder(TaskBody)
ALL = CompletionBody()


@routes.post(
    "/v1/tasks",
    {201: Task, 200: Task},
    body=TaskBody,
    headers=("Idempotency-Key",),
    problems=(IdempotencyConflict, Overloaded, ClockIsOff),
)
def create_task(context: Context[Store], request: Request) -> Deferred[Created]:
    """Create a task.

    The task and all its sub_tasks are stored in one transaction. 200 with `Idempotency-Replayed: true`
    when the same key came with the same bytes before: the same task. A payload is at most 256 KiB.
    """
    key = _idempotency_key(request)
    body = request.body()
    document = read_json(body, DECODER)
    new = _new_task(document, context.settings, key, hashlib.sha256(body).digest() if key else None)
    return Deferred(context.store.create_task(new), partial(_respond, context, new))


def _respond(context: Context[Store], new: NewTask, created: Created) -> Response:
    if created.outcome == "conflict":
        raise IdempotencyConflict("this Idempotency-Key was used with another body")
    if created.outcome == "refused":
        raise Overloaded(context.store.refusal(), ADMISSION_RETRY_SECONDS)
    if created.outcome == "replayed":
        return _replay(context, created.task_id)
    metrics.CREATED.inc()
    task = _as_created(new, created)
    return json_response(task, 201, [("Location", f"/v1/tasks/{task.id}")])


def _replay(context: Context[Store], task_id: int) -> Response:
    task = context.store.read_replayed_task(task_id)
    if task is None:
        raise DatabaseAway("everything was reset at this moment")
    headers = [("Location", f"/v1/tasks/{task.id}"), ("Idempotency-Replayed", "true")]
    return json_response(task, 200, headers)


def _idempotency_key(request: Request) -> str | None:
    key = request.header("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise Invalid(Fault("/Idempotency-Key", "the header must be 1 to 255 printable ASCII characters"))
    return key


def _new_task(
    document: Document[TaskBody], settings: Settings, key: str | None, body_hash: bytes | None
) -> NewTask:
    """Return the task, after checks that the decoder can't do. Raise Invalid with all that is wrong."""
    body = document.value
    completion = body.completion or ALL
    metadata = "null" if body.metadata is UNSET else document.text(body.metadata, around=1)
    payloads = document.join(SEPARATOR, [sub_task.payload for sub_task in body.sub_tasks], around=3)
    faults = [*_payload_faults(body.sub_tasks), *_metadata_faults(metadata)]
    faults += _completion_faults(completion, len(body.sub_tasks))
    not_before = _not_before(body.not_before, faults)
    target = _target(body.webhook_url, settings, faults)
    if faults:
        raise Invalid(*faults)
    return NewTask(
        queue=body.queue,
        payloads=payloads,
        max_attempts=[sub_task.max_attempts or body.max_attempts for sub_task in body.sub_tasks],
        metadata=None if metadata == "null" else metadata,
        webhook_url=body.webhook_url,
        webhook_host=target.host_key if target else None,
        not_before=not_before,
        policy=completion.policy,
        required=completion.count or None,
        deadline_seconds=completion.deadline_seconds or None,
        idempotency_key=key,
        body_hash=body_hash,
    )


def _payload_faults(sub_tasks: list[SubTaskBody]) -> Iterator[Fault]:
    for index, sub_task in enumerate(sub_tasks):
        if len(bytes(sub_task.payload)) > MAX_PAYLOAD:
            yield Fault(f"/sub_tasks/{index}/payload", f"is larger than {MAX_PAYLOAD} bytes")


def _metadata_faults(metadata: str) -> Iterator[Fault]:
    if metadata != "null" and not metadata.startswith("{"):
        yield Fault("/metadata", "must be an object")
    elif len(metadata.encode()) > MAX_METADATA:
        yield Fault("/metadata", f"is larger than {MAX_METADATA} bytes")


def _completion_faults(completion: CompletionBody, sub_tasks: int) -> Iterator[Fault]:
    if completion.policy != "at_least":
        if completion.count is not UNSET:
            yield Fault("/completion/count", "goes with the policy at_least only")
    elif completion.count is UNSET:
        yield Fault("/completion/count", "is required with the policy at_least")
    elif completion.count > sub_tasks:
        yield Fault("/completion/count", f"is more than the {sub_tasks} sub_tasks there are")


def _not_before(given: datetime | None, faults: list[Fault]) -> datetime | None:
    """Return the time in UTC; add what is wrong with it to `faults`."""
    try:
        return None if given is None else to_utc(given)
    except ValueError as error:
        faults.append(Fault("/not_before", str(error)))
        return None


def _target(url: str | None, settings: Settings, faults: list[Fault]) -> Target | None:
    """Return where the webhook goes; add what is wrong with its address to `faults`."""
    if url is None:
        return None
    if not settings.webhook_secrets or not settings.webhook_allowed_hosts:
        faults.append(Fault("/webhook_url", "refused: this RVQ is not configured to send webhooks"))
        return None
    try:
        return check_url(url, settings.webhook_allowed_hosts)
    except AddressRefused as refusal:
        faults.append(Fault("/webhook_url", f"refused ({refusal.reason_code}): {refusal.detail}"))
        return None


def _as_created(new: NewTask, created: Created) -> Task:
    """Return the task that a read would give at this moment, without the read."""
    total = len(new.max_attempts)
    scheduled, queued = (total, 0) if created.scheduled else (0, total)
    completion = (new.policy, new.required, new.deadline_seconds)
    head = (created.task_id, "queued", new.queue, new.metadata, new.webhook_url, *completion)
    return Task.from_row((*head, created.created_at, None, total, scheduled, queued, 0, 0, 0, 0))
