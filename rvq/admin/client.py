"""The admin API of a running RVQ, as the command line calls it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import requests

from rvq.errors import CommandError

# An audit or a reset of a large history takes its time.
TIMEOUT_SECONDS = 660


class Client:
    """Raises CommandError with what the API said, or why it can't be reached; never shows the key."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._url = _url(environ)
        token = environ.get("APP_ADMIN_TOKEN", "").partition(",")[0].strip()
        if not token:
            raise CommandError("APP_ADMIN_TOKEN is not set")
        self._session = requests.Session()
        # Neither proxies nor a netrc of the user's get the key.
        self._session.trust_env = False
        self._session.headers.update({"Authorization": f"Bearer {token}", "Content-Type": "application/json"})

    def get(self, *path: str, **query: object) -> Any:
        """`path` is what follows /v1/admin, a piece a segment; None in `query` is left out."""
        return json.loads(self._call("GET", _path(path) + _query(query)))

    def post(self, *path: str, body: object = None) -> Any:
        return json.loads(self._call("POST", _path(path), None if body is None else json.dumps(body)))

    def metrics(self) -> str:
        return self._call("GET", "/metrics").decode()

    def _call(self, method: str, path: str, body: str | None = None) -> bytes:
        try:
            answer = self._session.request(
                method, self._url + path, data=body, timeout=(5, TIMEOUT_SECONDS), allow_redirects=False
            )
        except requests.RequestException as error:
            raise CommandError(f"no answer from {self._url}: {_cause(error)}") from None
        if answer.status_code != 200:
            raise CommandError(_refusal(answer.status_code, answer.content))
        return answer.content


def _url(environ: Mapping[str, str]) -> str:
    url = environ.get("RVQ_URL", "").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise CommandError(
            "RVQ_URL must be the http:// or https:// address of a running API, as `rvq up` prints it"
        )
    return url


def _path(pieces: tuple[str, ...]) -> str:
    return "/".join(["/v1/admin", *(quote(piece, safe="") for piece in pieces)])


def _query(query: Mapping[str, object]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return "?" + urlencode(given) if given else ""


def _refusal(status: int, body: bytes) -> str:
    try:
        problem = json.loads(body)
        return f"{problem['detail']} ({problem['code']}, {status})"
    except (ValueError, KeyError, TypeError):
        return f"the answer was {status} and not RVQ's: is RVQ_URL right?"


def _cause(error: requests.RequestException) -> str:
    """The innermost reason, without the URL and the objects that requests wraps around it."""
    inner: BaseException = error
    while inner.__cause__ or inner.__context__:
        inner = inner.__cause__ or inner.__context__ or inner
    return str(inner).rpartition(": ")[2] or type(inner).__name__
