"""GET /v1/events: every event so far, in commit order."""

from __future__ import annotations

from typing import Any

from app import ids
from app.partner.schemas import EventPage
from app.partner.store import START, FeedPlace, Store
from app.web import cursors
from app.web.problems import HistoryChanged
from app.web.request import Request
from app.web.response import Response, page
from app.web.routes import CURSOR, LIMIT, Context, Routes
from app.web.schemas import raw

routes = Routes()


@routes.get("/v1/events", EventPage, query=(LIMIT, CURSOR), problems=(HistoryChanged,))
def list_events(context: Context[Store], request: Request) -> Response:
    """List every event so far, in the order of commit.

    Nothing ever appears behind a cursor that was handed out. `next_cursor` is null only when there is
    nothing after the cursor yet: keep yours and ask again later. A database that was restored, or a
    standby that took over, may lack what was committed last: a cursor from there gets 409
    `history_changed`. Then list the events again without a cursor; those that are still there have the
    ids that you know.
    """
    events = context.store.list_events(_place(request), request.limit())
    if events is None:
        raise HistoryChanged(
            "the database was restored, or a standby took over, without the events that this cursor is "
            "after: list the events again without a cursor, and pass over the ids that you know"
        )
    next_cursor = cursors.write("e", *events[-1][0]) if events else None
    return page([_event(place.event, body) for place, body in events], next_cursor)


def _place(request: Request) -> FeedPlace:
    """Return the place of the cursor. Those of 0.1.0 have two numbers."""
    numbers = request.cursor("e", 3, 2)
    if numbers is None:
        return START
    return FeedPlace(*numbers) if len(numbers) == 3 else FeedPlace(0, *numbers)


def _event(number: int, body: str) -> Any:
    """Return the webhook's body, as it was signed, with the webhook-id in front."""
    return raw(f'{{"id":"{ids.event_id(number)}",{body[1:]}')
