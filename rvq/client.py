"""One audience's client of the HTTP API, for the command line, the demo and the benchmarks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import requests
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from rvq.errors import CommandError

CONNECT_SECONDS, READ_SECONDS = 5, 30
MAX_PAGE = 1000


class Client:
    """Calls the API at `url` with one key, over one kept connection: give each thread its own.

    Paths are segments below /v1. Every method raises CommandError with what the API said, or with why it
    can't be reached; the text never has the key.
    """

    def __init__(
        self, url: str, token: str, read_seconds: float = READ_SECONDS, ca_bundle: str | None = None
    ) -> None:
        self._url = url
        self._timeout = (CONNECT_SECONDS, read_seconds)
        self._session = requests.Session()
        # Neither proxies nor a netrc of the user's get the key.
        self._session.trust_env = False
        self._session.verify = ca_bundle or True
        self._session.headers.update({"Authorization": f"Bearer {token}", "Content-Type": "application/json"})

    def get(self, *path: str, **query: object) -> Any:
        """Return the decoded body; None in `query` is left out."""
        given = {name: value for name, value in query.items() if value is not None}
        return json.loads(self._call("GET", _path(path) + ("?" + urlencode(given) if given else "")))

    def post(self, *path: str, body: object = None) -> Any:
        return json.loads(self._call("POST", _path(path), None if body is None else json.dumps(body)))

    def pages(self, *path: str, most: int | None = None, **query: object) -> Iterator[Any]:
        """Yield the items of a listing, at most `most`, a page at a time."""
        left, cursor = most, None
        while left is None or left > 0:
            limit = MAX_PAGE if left is None else min(MAX_PAGE, left)
            page = self.get(*path, limit=limit, cursor=cursor, **query)
            yield from page["items"]
            cursor = page["next_cursor"]
            # The feed of events always has a next cursor: its end is an empty page.
            if cursor is None or not page["items"]:
                return
            left = None if left is None else left - len(page["items"])

    def metrics(self) -> str:
        """Return /metrics, which the admin key opens."""
        return self._call("GET", "/metrics").decode()

    def _call(self, method: str, path: str, body: str | None = None) -> bytes:
        try:
            response = self._session.request(
                method, self._url + path, data=body, timeout=self._timeout, allow_redirects=False
            )
        except requests.RequestException as error:
            is_unknown = method == "POST" and _was_sent(error)
            hint = "; it may have been carried out all the same" if is_unknown else ""
            raise CommandError(f"no answer from {self._url}: {_cause(error)}{hint}") from None
        if response.status_code not in (200, 201):
            raise CommandError(_refusal(response.status_code, response.content))
        return response.content


def _path(segments: tuple[str, ...]) -> str:
    return "/".join(["/v1", *(quote(segment, safe="") for segment in segments)])


def _refusal(status: int, body: bytes) -> str:
    try:
        problem = json.loads(body)
        return f"{problem['detail']} ({problem['code']}, {status})"
    except (ValueError, KeyError, TypeError):
        return f"the answer was {status} and not RVQ's: is RVQ_URL right?"


def _was_sent(error: requests.RequestException) -> bool:
    """Return whether the request may have reached the API: a connection was made."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, NewConnectionError | ConnectTimeoutError):
            return False
        link = link.__cause__ or link.__context__
    return True


def _cause(error: requests.RequestException) -> str:
    """Return the innermost reason, without the URL and the objects that requests wraps around it."""
    inner: BaseException = error
    while inner.__cause__ or inner.__context__:
        inner = inner.__cause__ or inner.__context__ or inner
    return str(inner).rpartition(": ")[2] or type(inner).__name__
