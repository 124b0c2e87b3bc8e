"""Gunicorn's own log messages and error pages in RVQ's forms, whatever its worker class."""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    LimitRequestHeaders,
    ParseException,
)

from app.web.problems import MEDIA_TYPE, MalformedRequest, Problem, TooManyHeaders, Unexpected
from app.web.request import REPEATED_HEADERS

log = logging.getLogger("gunicorn.error")


def respond_to_error(_request: Any, client: Any, _address: Any, error: BaseException) -> None:
    """Send a problem document for what is not HTTP; Gunicorn's page of HTML would repeat what was sent.

    It replaces the `handle_error` of a worker.
    """
    kind: type[Problem] = Unexpected
    if isinstance(error, ParseException):
        log.info("not HTTP: %s", type(error).__name__)
        kind = TooManyHeaders if isinstance(error, LimitRequestHeaders) else MalformedRequest
    else:
        log.error("a request failed outside the app", exc_info=error)
    request_id = secrets.token_hex(12)
    body = kind().body(request_id)
    head = (
        f"HTTP/1.1 {kind.status} {kind.title()}\r\nConnection: close\r\nX-Request-Id: {request_id}\r\n"
        f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with contextlib.suppress(OSError):
        util.write_nonblock(client, head.encode() + body)


def mark_repeated_headers(_worker: Any, request: Any) -> None:
    """Tell the app which headers came more than once; Gunicorn joins their values.

    It refuses by itself those of the standard that must be single, such as Content-Type. No client can send
    the mark: the name of a header has no blank.
    """
    names = [name for name, _ in request.headers]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        request.headers.append((REPEATED_HEADERS, " ".join(repeated)))


class ForwardingLogger(Logger):  # type: ignore[misc]
    """Gunicorn's logger, which passes messages to the root logger, so that they come out in our format."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        for logger in (self.error_log, self.access_log):
            logger.handlers.clear()
            logger.propagate = True
            logger.setLevel(logging.NOTSET)
