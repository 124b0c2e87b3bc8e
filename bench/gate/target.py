"""The environment says where the gate sends, and has the keys that it needs."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

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
        return _address(self.api_url)

    def check(self) -> None:
        """Ask both ends whether they are there. Raises TargetError."""
        for name, address, path in (
            ("the API", self.api, "/readyz"),
            ("the receiver", _address(self.receiver_url), "/control/count"),
        ):
            status, _ = _call(name, address, "GET", path)
            if status != 200:
                raise TargetError(f"{name} at {address[0]}:{address[1]} responds to {path} with {status}")

    def reset_receiver(self, since: float) -> None:
        self._control("POST", f"/control/reset?since={since!r}")

    def webhooks_in_all(self) -> int:
        return int(self._control("GET", "/control/count"))

    def received(self) -> Received:
        return msgspec.json.decode(self._control("GET", "/control/report"), type=Received)

    def read_as_partner(self, path: str) -> str:
        """Return the API's response, whatever it is. Raises TargetError."""
        status, body = _call(
            "the API", self.api, "GET", path, {"Authorization": f"Bearer {self.partner_token}"}
        )
        return f"{status} {body.decode(errors='replace')}"

    def _control(self, method: str, path: str) -> bytes:
        status, body = _call("the receiver", _address(self.receiver_url), method, path)
        if status != 200:
            raise TargetError(f"the receiver responds to {path} with {status}")
        return body


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


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 80


def _call(
    name: str, address: tuple[str, int], method: str, path: str, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        connection.request(method, path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise TargetError(f"{name} at {address[0]}:{address[1]} can't be reached: {error}") from error
    finally:
        connection.close()
