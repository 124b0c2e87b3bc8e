"""POST /v1/sub_tasks/complete: many reports, each with an outcome of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from app import ids
from app.web.fields import MAX_BATCH, WorkerId
from app.web.problems import Invalid
from app.web.request import Request
from app.web.response import Deferred, Response
from app.web.routes import Context, Routes
from app.web.strict_json import Document, is_too_deep, read_json
from app.worker.batches import Batch, respond_to_batch
from app.worker.schemas import Completed, Reported
from app.worker.store import Report, Store

routes = Routes()

MAX_DOCUMENT = 1024 * 1024
MAX_RETRY_AFTER_SECONDS = 7 * 24 * 3600
NONE = Raw(b"null")


class ReportBody(Struct):
    """`result` (any JSON) and `error` (an object) are at most 1 MiB each. Other members are not looked at."""

    id: str
    lease_token: str
    status: Literal["succeeded", "failed"]
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class ErrorBody(Struct):
    """The members of an error that RVQ reads; any others are kept with it."""

    message: Raw
    retryable: bool = True
    retry_after_seconds: Annotated[float, Meta(ge=0, le=MAX_RETRY_AFTER_SECONDS)] | None = None


class CompleteBody(Struct, forbid_unknown_fields=True):
    """A report that is not valid gets the outcome `invalid`; the others are stored."""

    worker_id: WorkerId
    results: Annotated[list[ReportBody], Meta(min_length=1, max_length=MAX_BATCH)]


class LenientBody(Struct, forbid_unknown_fields=True):
    """A CompleteBody whose reports are not decoded yet."""

    worker_id: WorkerId
    results: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_BATCH)]


DECODER = msgspec.json.Decoder(CompleteBody)
LENIENT_DECODER = msgspec.json.Decoder(LenientBody)
REPORT_DECODER = msgspec.json.Decoder(ReportBody)
ERROR_DECODER = msgspec.json.Decoder(ErrorBody)


@routes.post("/v1/sub_tasks/complete", Completed, body=CompleteBody)
def complete_sub_tasks(context: Context[Store], request: Request) -> Response | Deferred[list[str]]:
    """Report how attempts ended.

    One outcome for each report, in order. Sending the same request again is safe. An `error` has a
    `message`, and may have `retryable` (default true), `retry_after_seconds` (0 to 604800) and anything
    else.
    """
    worker_id, batch = _read(request.body())

    def respond(of_accepted: Iterable[str]) -> Response:
        return respond_to_batch(Completed, Reported, "complete", batch.names, batch.outcomes(of_accepted))

    if not batch.accepted:
        return respond(())
    return Deferred(context.store.complete(worker_id, batch.accepted), respond)


def _read(body: bytes) -> tuple[str, Batch[Report]]:
    """Decode all reports at once, or one by one when that fails, so that only the bad ones are refused."""
    batch: Batch[Report] = Batch()
    try:
        strict = read_json(body, DECODER)
        for report in strict.value.results:
            _add(batch, strict, report)
        return strict.value.worker_id, batch
    except Invalid:
        lenient = read_json(body, LENIENT_DECODER)
    batch = Batch()
    for raw in lenient.value.results:
        try:
            _add(batch, lenient, REPORT_DECODER.decode(raw))
        except msgspec.DecodeError:
            batch.refuse(None, "invalid")
    return lenient.value.worker_id, batch


def _add(batch: Batch[Report], document: Document[Any], report: ReportBody) -> None:
    number = ids.parse_sub_task_id(report.id)
    token = ids.parse_lease_token(report.lease_token)
    parsed = _parse(document, report, number or 0, token)
    if parsed is None:
        batch.refuse(report.id, "invalid")
    elif number is None:
        batch.refuse(report.id, "unknown")
    else:
        batch.accept(report.id, parsed)


def _parse(document: Document[Any], report: ReportBody, number: int, token: str) -> Report | None:
    """Return the report as it is stored, or None when it is invalid."""
    kept = NONE if report.result is UNSET else report.result
    other = NONE if report.error is UNSET else report.error
    if report.status == "failed":
        kept, other = other, kept
    if bytes(other) != b"null" or len(bytes(kept)) > MAX_DOCUMENT or is_too_deep(kept, around=3):
        return None
    text = document.text(kept)
    if report.status == "succeeded":
        return Report(number, token, True, result=text)
    try:
        error = ERROR_DECODER.decode(kept)
    except msgspec.DecodeError:
        return None
    if not bytes(error.message).startswith(b'"'):
        return None
    return Report(
        number,
        token,
        False,
        error=text,
        retryable=error.retryable,
        retry_after_seconds=error.retry_after_seconds,
    )
