"""How requests reach RVQ. No other module imports `requests`."""

import threading
from dataclasses import dataclass
from typing import Protocol

import requests

from ._errors import Unavailable
from ._settings import Settings
from ._version import __version__

CONNECT_SECONDS = 3.0


@dataclass(frozen=True)
class Answer:
    """An HTTP response. `retry_after` and `date` are the headers Retry-After and Date as they came."""

    status: int
    body: bytes
    retry_after: str | None = None
    date: str | None = None


class Transport(Protocol):
    """What the SDK needs of the network; `worker_sdk.testing.FakeRVQ` is one without a network."""

    def post(self, path: str, body: bytes) -> Answer:
        """Send JSON to a path below the base URL. Raises Unavailable when there is no complete response."""

    def close(self) -> None: ...


class HTTPTransport:
    """A transport over `requests` that keeps one connection for each thread.

    Nothing else of the environment (proxies, netrc, CA variables) is used and redirects are not followed: the
    token goes to RVQ_URL only.
    """

    def __init__(
        self, settings: Settings, read_seconds: float, connect_seconds: float = CONNECT_SECONDS
    ) -> None:
        self._settings = settings
        self._timeout = (connect_seconds, read_seconds)
        self._local = threading.local()
        self._opened: list[requests.Session] = []

    def post(self, path: str, body: bytes) -> Answer:
        try:
            response = self._session().post(
                self._settings.url + path,
                data=body,
                timeout=self._timeout,
                allow_redirects=False,
                verify=self._settings.ca_bundle or True,
            )
        except (requests.RequestException, OSError) as error:
            raise Unavailable(f"no answer from {self._settings.url}{path}: {error}") from error
        headers = response.headers
        return Answer(response.status_code, response.content, headers.get("Retry-After"), headers.get("Date"))

    def close(self) -> None:
        for session in self._opened:
            session.close()

    def _session(self) -> requests.Session:
        session: requests.Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = self._open()
        return session

    def _open(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.headers.update(
            {
                "Authorization": f"Bearer {self._settings.token}",
                "Content-Type": "application/json",
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": f"rvq-worker-sdk/{__version__}",
            }
        )
        self._opened.append(session)
        return session
