"""Gunicorn's requests, log messages and error pages as RVQ wants them, whatever its worker class."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import weakref
from functools import partial
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    InvalidHeader,
    InvalidHTTPVersion,
    InvalidRequestLine,
    LimitRequestHeaders,
    LimitRequestLine,
    ParseException,
    UnsupportedTransferCoding,
)

from app.server.body import RequestBody
from app.server.framing import Chunked, Sized
from app.web.problems import MEDIA_TYPE, MalformedRequest, Problem, TooLongTarget, TooManyHeaders, Unexpected
from app.web.request import REPEATED_HEADERS

log = logging.getLogger("gunicorn.error")

# Of the request line and all headers together.
MAX_HEAD = 32 * 1024
_TARGET = re.compile(r"[^\x00-\x20\x7f]+")
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?", re.ASCII)
_PROBLEMS: dict[type[ParseException], type[Problem]] = {
    LimitRequestHeaders: TooManyHeaders,
    LimitRequestLine: TooLongTarget,
}


def respond_to_error(_request: Any, client: Any, _address: Any, error: BaseException) -> None:
    """Send a problem document for what is not HTTP; Gunicorn's page of HTML would repeat what was sent.

    It replaces the `handle_error` of a worker.
    """
    kind: type[Problem] = Unexpected
    if isinstance(error, ParseException):
        log.info("not HTTP: %s", type(error).__name__)
        kind = _PROBLEMS.get(type(error), MalformedRequest)
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


def complete_request(request: Any) -> None:
    """Refuse what Gunicorn lets pass, and replace its reader of the body. Raise a ParseException."""
    _check_head(request)
    framing = _framing(request)
    this = weakref.proxy(
        request
    )  # the body must not keep its request: memory is freed at once without cycles
    invite = None
    if request._expected_100_continue and not framing.is_done:
        invite = partial(_invite, this)
        # Unless it is invited the body may never come, and what comes instead would be read as the body.
        request.force_close()
    request._expected_100_continue = False
    request.body = RequestBody(request.unreader, framing, invite, lambda: this.force_close())
    _mark_repeated_headers(request)


def _invite(request: Any) -> None:
    """Tell a client that waits for it to send the body: not before somebody wants to read it."""
    request.unreader.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.must_close = False


def is_host(value: str) -> bool:
    """Return whether this may be the value of Host (RFC 9110, 7.2): a name or an address, perhaps a port."""
    return _HOST.fullmatch(value) is not None


def _check_head(request: Any) -> None:
    if not _TARGET.fullmatch(request.uri):
        raise InvalidRequestLine(request.uri)
    if request.version not in ((1, 0), (1, 1)):
        raise InvalidHTTPVersion(request.version)
    given = [value for name, value in request.headers if name == "HOST"]
    if not all(map(is_host, given)) or (not given and request.version >= (1, 1)):
        raise InvalidHeader("HOST", req=request)
    if sum(len(name) + len(value) + 4 for name, value in request.headers) > MAX_HEAD:
        raise LimitRequestHeaders("the headers are too long together")


def _framing(request: Any) -> Sized | Chunked:
    """Return where the body ends. Refuse any transfer coding but `chunked` alone: it leaves that to guess."""
    given = [value.strip(" \t").lower() for name, value in request.headers if name == "TRANSFER-ENCODING"]
    if given not in ([], ["chunked"]):
        raise UnsupportedTransferCoding(", ".join(given))
    if given:
        return Chunked()
    return Sized(next((int(value) for name, value in request.headers if name == "CONTENT-LENGTH"), 0))


def _mark_repeated_headers(request: Any) -> None:
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
