"""The API's description: the committed OpenAPI document, and a page for people that is made from it."""

from __future__ import annotations

from functools import cache

from app.ops.docs_page import render
from app.ops.store import Store
from app.paths import ROOT
from app.web.request import Request
from app.web.response import Response
from app.web.routes import Context, Route

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def read_openapi(_context: Context[Store], _request: Request) -> Response:
    return Response(document())


def read_docs(_context: Context[Store], _request: Request) -> Response:
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


ROUTES = (
    Route(
        "GET", "/openapi.json", read_openapi, "This API as OpenAPI 3.1", responses={200: "application/json"}
    ),
    Route("GET", "/docs", read_docs, "This API as a page", responses={200: "text/html"}),
)
