"""Bearer tokens: which audience a request comes from."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from app.web.problems import ApiDisabled, Unauthorized


class BearerGuard:
    """A check that admits any token of one audience. Without tokens that audience's API is off."""

    def __init__(self, audience: str, tokens: Sequence[str]) -> None:
        self._audience = audience
        self._tokens = [token.encode() for token in tokens]

    def require_enabled(self) -> None:
        """Raise ApiDisabled if the audience has no tokens."""
        if not self._tokens:
            raise ApiDisabled(f"the {self._audience} API is switched off: its token is not configured")

    def require_token(self, authorization: str | None) -> None:
        """Raise ApiDisabled, or Unauthorized if the token is not valid: in the same time for every token."""
        self.require_enabled()
        if not authorization:
            raise Unauthorized("send Authorization: Bearer <token>")
        scheme, _, text = authorization.partition(" ")
        given = text.strip(" ").encode("utf-8", "replace")
        matches = [hmac.compare_digest(given, token) for token in self._tokens]
        if scheme.lower() != "bearer" or not any(matches):
            raise Unauthorized(f"this is not a token of the {self._audience} API")
