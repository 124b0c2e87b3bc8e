"""What Gunicorn's worker answers: the app's answers in one packet, problem+json for what never gets there."""

from __future__ import annotations

import contextlib
import logging
import secrets
from typing import Any

from gunicorn import util  # type: ignore[import-untyped]
from gunicorn.glogging import Logger  # type: ignore[import-untyped]
from gunicorn.http import wsgi  # type: ignore[import-untyped]
from gunicorn.http.errors import (  # type: ignore[import-untyped]
    LimitRequestHeaders,
    ParseException,
)

from app.gunicorn_threads import ThreadedWorker
from app.problems import MEDIA_TYPE, MalformedRequest, Problem, TooManyHeaders, Unexpected


class OneWrite(wsgi.Response):  # type: ignore[misc]
    """Sends head and body in one packet where Gunicorn sends two: a system call and a wake-up less."""

    headers_sent: bool

    def write(self, arg: bytes) -> None:
        whole = self.response_length == len(arg) and not (self.headers_sent or self._omits_body)
        if not whole:
            super().write(arg)
            return
        head = [*self.default_headers(), *(f"{name}: {value}\r\n" for name, value in self.headers)]
        self.headers_sent = True
        self.sent = len(arg)
        util.write(self.sock, "".join(head).encode("latin-1") + b"\r\n" + arg)


class Worker(ThreadedWorker):
    """See gunicorn.conf.py for its settings."""

    def handle_request(self, request: Any, connection: Any) -> bool:
        """Gunicorn's own, less what only its access log needs, and with answers in one packet."""
        answer, environ = wsgi.create(
            request,
            connection.sock,
            connection.client,
            connection.server,
            self.cfg,
            response_class=OneWrite,
        )
        environ["wsgi.multithread"] = True
        if not self.alive or not self.has_room():
            answer.force_close()
        try:
            pieces = self.wsgi(environ, answer.start_response)
            try:
                if not self.alive:
                    answer.force_close()
                for piece in pieces:
                    answer.write(piece)
                answer.close()
            finally:
                if hasattr(pieces, "close"):
                    pieces.close()
        except OSError:  # the client went away
            raise
        except Exception:
            if not answer.headers_sent:
                raise
            self.log.exception("an answer was cut")
            raise StopIteration from None
        return not answer.should_close()

    def handle_error(self, _req: Any, client: Any, _addr: Any, exc: BaseException) -> None:
        """Gunicorn would answer with a page of HTML that repeats what was sent."""
        if isinstance(exc, ParseException):
            self.log.info("not HTTP: %s", type(exc).__name__)
            kind: type[Problem] = MalformedRequest
            if isinstance(exc, LimitRequestHeaders):
                kind = TooManyHeaders
        else:
            self.log.error("a request failed outside the app", exc_info=exc)
            kind = Unexpected
        request_id = secrets.token_hex(12)
        body = kind().body(request_id)
        head = (
            f"HTTP/1.1 {kind.status} {kind.title()}\r\nConnection: close\r\nX-Request-Id: {request_id}\r\n"
            f"Content-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        with contextlib.suppress(OSError):
            util.write_nonblock(client, head.encode() + body)


class ForwardingLogger(Logger):  # type: ignore[misc]
    """Gunicorn's messages in our format: they go where everything that is logged goes."""

    def setup(self, cfg: Any) -> None:
        self.cfg = cfg
        for logger in (self.error_log, self.access_log):
            logger.handlers.clear()
            logger.propagate = True
            logger.setLevel(logging.NOTSET)
