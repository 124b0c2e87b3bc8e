"""A parser that reads plain requests in one step, and leaves all others to Gunicorn's own.

Gunicorn's C parser takes 2 us for a request, what Gunicorn does around it 40: settings looked up by name,
trust in proxies, an environ of thirty entries. None of it matters to a plain request: HTTP/1.1, no header
twice, and none that changes how it is read or what it means. Gunicorn reads what is not plain, and refuses
what is wrong.
"""

from __future__ import annotations

import io
import re
from functools import lru_cache
from typing import Any

import gunicorn_h1c
from gunicorn.http.errors import LimitRequestHeaders, NoMoreData  # type: ignore[import-untyped]
from gunicorn.http.parser import RequestParser  # type: ignore[import-untyped]

from app.server.adapters import MAX_HEAD, complete_request, is_host
from app.server.body import RequestBody
from app.server.framing import Sized
from app.web.request import Environ

# Headers that change how a request is read or answered, besides those that Gunicorn takes from a proxy.
_SPECIAL = ("Expect", "HTTP2-Settings", "Transfer-Encoding", "Upgrade")
_UNPREFIXED = {"HTTP_CONTENT_TYPE": "CONTENT_TYPE", "HTTP_CONTENT_LENGTH": "CONTENT_LENGTH"}
_PLAIN_PATH = re.compile(r"/(?:[A-Za-z0-9._~-][A-Za-z0-9._~/-]*)?", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)


class HeadIncomplete(Exception):
    """The request's head has not come whole yet: what there is of it is kept for the next time."""


class PlainRequest:
    """The part of Gunicorn's Request that its parser and worker use, and the environ that belongs to it."""

    __slots__ = ("body", "environ")

    def __init__(self, environ: Environ, body: io.BytesIO | RequestBody) -> None:
        self.environ = environ
        self.body = environ["wsgi.input"] = body

    def should_close(self) -> bool:
        return isinstance(self.body, RequestBody) and self.body.is_broken


class Parser(RequestParser):  # type: ignore[misc]
    """The requests of one connection. `base` is what their environs have in common."""

    def __init__(self, cfg: Any, source: Any, source_addr: Any, base: Environ) -> None:
        super().__init__(cfg, source, source_addr)
        self.incomplete = 0  # bytes of a head that has not come whole yet
        self._base = base
        self._special = {_environ_key(name.encode()) for name in (*_SPECIAL, *cfg.secure_scheme_headers)}
        self._limits = {
            "limit_request_line": cfg.limit_request_line,
            "limit_request_fields": cfg.limit_request_fields,
            "limit_request_field_size": cfg.limit_request_field_size,
        }

    def __next__(self) -> Any:
        """Return a PlainRequest, or Gunicorn's own. The body of the request before must have been read.

        Raise HeadIncomplete, without waiting, if more has to come first.
        """
        data = self._receive()
        environ = dict(self._base)
        try:
            head = gunicorn_h1c.parse_request(data, last_len=self.incomplete, **self._limits)
        except gunicorn_h1c.IncompleteError:
            self._keep(data)
            raise HeadIncomplete from None
        except Exception:  # Gunicorn tells what is wrong
            head = None
        self.incomplete = 0
        if head is None or not self._is_plain(head, environ):
            self.unreader.unread(data)
            request = super().__next__()
            complete_request(request)
            return request
        self.mesg = PlainRequest(environ, self._body(data[head["consumed"] :], environ))
        return self.mesg

    def _receive(self) -> bytes:
        """Return what was read ahead, or that with what comes next if it is no whole head."""
        data: bytes = self.unreader.take_buffered()
        if data and not self.incomplete:
            return data
        more = self.unreader.chunk()
        if not more:
            raise NoMoreData() if data else StopIteration()
        return data + bytes(more)

    def _keep(self, data: bytes) -> None:
        if len(data) > MAX_HEAD:
            raise LimitRequestHeaders("the headers are too long together")
        self.incomplete = len(data)
        self.unreader.unread(data)

    def _is_plain(self, head: dict[str, Any], environ: Environ) -> bool:
        """Return whether the request is plain; if so, its line and headers are in `environ`."""
        for name, value in head["headers"]:
            key = _environ_key(name)
            if key is None or key in environ or key in self._special:
                return False
            environ[key] = value.decode("latin-1")
        path, _, query = head["path"].decode("latin-1").partition("?")
        environ["REQUEST_METHOD"] = head["method"].decode()
        environ["PATH_INFO"], environ["QUERY_STRING"] = path, query
        return (
            head["minor_version"] == 1
            and head["consumed"] <= MAX_HEAD
            and is_host(environ.get("HTTP_HOST", "/"))
            and _PLAIN_PATH.fullmatch(path) is not None
            and "#" not in query
            and _LENGTH.fullmatch(environ.get("CONTENT_LENGTH", "0")) is not None
            and environ.get("HTTP_CONNECTION", "keep-alive").lower() == "keep-alive"
        )

    def _body(self, rest: bytes, environ: Environ) -> io.BytesIO | RequestBody:
        length = int(environ.get("CONTENT_LENGTH", 0))
        if len(rest) > length:
            self.unreader.unread(rest[length:])
        if len(rest) >= length:
            return io.BytesIO(rest[:length])
        self.unreader.unread(rest)
        return RequestBody(self.unreader, Sized(length))


def is_read(body: io.BytesIO | RequestBody) -> bool:
    """Return whether nothing of this body is still to come from the client."""
    return isinstance(body, io.BytesIO) or body.is_read


@lru_cache(maxsize=512)
def _environ_key(name: bytes) -> str | None:
    """Return what an environ calls a header; None if it has an underscore: it could pass for another."""
    if b"_" in name:
        return None
    key = "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
    return _UNPREFIXED.get(key, key)
