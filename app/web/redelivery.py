"""What partners and admins are told when a delivery is to be sent again."""

from __future__ import annotations

from app.web.problems import StateConflict, TooManyRedeliveries
from app.web.response import Response, json_response
from app.web.schemas import Redelivered


def respond_to_redelivery(outcome: str) -> Response:
    """Return the response to an outcome of rvq.redeliver. Raise the problem if nothing was changed."""
    if outcome == "in_flight":
        raise StateConflict("it is being sent at this moment: ask again once the attempt has ended")
    if outcome == "too_often":
        raise TooManyRedeliveries("it was sent a thousand times already")
    return json_response(Redelivered(1))
