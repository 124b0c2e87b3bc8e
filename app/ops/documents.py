"""The API's description: the committed OpenAPI document, and a page for people made from it."""

from __future__ import annotations

from functools import cache

from app.ops.docs_page import render
from app.ops.scope import Scope
from app.paths import ROOT
from app.web.request import Request
from app.web.response import Response, answer
from app.web.routes import Route

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def read_openapi(_scope: Scope, _request: Request) -> Response:
    return answer(document())


def read_docs(_scope: Scope, _request: Request) -> Response:
    return answer(
        _page(),
        headers=[("Content-Security-Policy", CONTENT_SECURITY_POLICY)],
        media_type="text/html; charset=utf-8",
    )


@cache
def document() -> bytes:
    return (ROOT / "app" / "openapi.json").read_bytes()


@cache
def _page() -> str:
    return render(document())


ROUTES = (
    Route("GET", "/openapi.json", read_openapi, "This API as OpenAPI 3.1", answers={200: "application/json"}),
    Route("GET", "/docs", read_docs, "This API as a page", answers={200: "text/html"}),
)
