"""The API's description: the committed OpenAPI document, and a page for people that is made from it."""

from __future__ import annotations

from functools import cache

from app.ops.docs_page import render
from app.ops.store import Store
from app.paths import ROOT
from app.web.request import Request
from app.web.response import Response
from app.web.routes import Context, Routes

routes = Routes()

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@routes.get("/openapi.json", "application/json")
def read_openapi(_context: Context[Store], _request: Request) -> Response:
    """Read the description of this API as OpenAPI 3.1."""
    return Response(document())


@routes.get("/docs", "text/html")
def read_docs(_context: Context[Store], _request: Request) -> Response:
    """Read the description of this API as a page."""
    return Response(
        _page(),
        headers=[("Content-Security-Policy", CONTENT_SECURITY_POLICY)],
        media_type="text/html; charset=utf-8",
    )


@cache
def document() -> bytes:
    return (ROOT / "app" / "openapi.json").read_bytes()


@cache
def _page() -> bytes:
    return render(document()).encode()
