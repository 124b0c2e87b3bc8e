"""GET /v1/events: every event so far, in commit order."""

from __future__ import annotations

from typing import Any

from app import ids
from app.partner.schemas import EventPage
from app.partner.store import Store
from app.web import cursors
from app.web.request import Request
from app.web.response import Response, page
from app.web.routes import CURSOR, LIMIT, Context, Routes
from app.web.schemas import raw

routes = Routes()


@routes.get("/v1/events", EventPage, query=(LIMIT, CURSOR))
def list_events(context: Context[Store], request: Request) -> Response:
    """List every event so far, in the order of commit.

    Nothing ever appears behind a cursor that was handed out. `next_cursor` is null only when there is
    nothing after the cursor yet: keep yours and ask again later.
    """
    limit = request.limit()
    xid, number = request.cursor("e", count=2) or (0, 0)
    rows = context.store.list_events((xid, number), limit)
    next_cursor = cursors.write("e", rows[-1][0], rows[-1][1]) if rows else None
    return page([_event(number, body) for _, number, body in rows], next_cursor)


def _event(number: int, body: str) -> Any:
    """Return the webhook's body, as it was signed, with the webhook-id in front."""
    return raw(f'{{"id":"{ids.event_id(number)}",{body[1:]}')
