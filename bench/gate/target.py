"""The environment says where the gate sends, and has the keys that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import msgspec
import urllib3

from bench.receiver import Received

NAMES = ("GATE_API_URL", "GATE_PARTNER_TOKEN", "GATE_WORKER_TOKEN", "GATE_WEBHOOK_URL")


class TargetError(Exception):
    """Something that must be there before any load makes sense is not."""


@dataclass(frozen=True)
class Target:
    """`webhook_url` is what tasks are created with; the receiver's control is on `receiver_url`."""

    api_url: str
    webhook_url: str
    receiver_url: str
    partner_token: str = field(repr=False)
    worker_token: str = field(repr=False)

    @property
    def api(self) -> tuple[str, int]:
        parts = urlsplit(self.api_url)
        return parts.hostname or "", parts.port or 80

    def check(self) -> None:
        """Ask both ends whether they are there. Raises TargetError."""
        for name, url, path in (
            ("the API", self.api_url, "/readyz"),
            ("the receiver", self.receiver_url, "/control/count"),
        ):
            status = _call(name, "GET", url, path).status
            if status != 200:
                raise TargetError(f"{name} at {_address(url)} responds to {path} with {status}")

    def reset_receiver(self, since: float) -> None:
        self._control("POST", f"/control/reset?since={since!r}")

    def webhooks_in_all(self) -> int:
        return int(self._control("GET", "/control/count"))

    def received(self) -> Received:
        return msgspec.json.decode(self._control("GET", "/control/report"), type=Received)

    def read_as_partner(self, path: str) -> str:
        """Return the API's response, whatever it is. Raises TargetError."""
        headers = {"Authorization": f"Bearer {self.partner_token}"}
        response = _call("the API", "GET", self.api_url, path, headers)
        return f"{response.status} {response.data.decode(errors='replace')}"

    def _control(self, method: str, path: str) -> bytes:
        response = _call("the receiver", method, self.receiver_url, path)
        if response.status != 200:
            raise TargetError(f"the receiver responds to {path} with {response.status}")
        return response.data


def read_target(environ: Mapping[str, str]) -> Target:
    """Read the GATE_ names. Raises TargetError.

    GATE_RECEIVER_URL says where the receiver is when webhooks reach it by another way.
    """
    missing = [name for name in NAMES if not environ.get(name)]
    if missing:
        raise TargetError(f"not set: {', '.join(missing)}")
    webhook = environ["GATE_WEBHOOK_URL"]
    return Target(
        api_url=environ["GATE_API_URL"],
        webhook_url=webhook,
        receiver_url=environ.get("GATE_RECEIVER_URL") or webhook,
        partner_token=environ["GATE_PARTNER_TOKEN"],
        worker_token=environ["GATE_WORKER_TOKEN"],
    )


def _call(
    name: str, method: str, url: str, path: str, headers: Mapping[str, str] | None = None
) -> urllib3.BaseHTTPResponse:
    try:
        return urllib3.request(method, urljoin(url, path), headers=headers, timeout=10, retries=False)
    except urllib3.exceptions.HTTPError as error:
        raise TargetError(f"{name} at {_address(url)} can't be reached: {error}") from error


def _address(url: str) -> str:
    return urlsplit(url).netloc
