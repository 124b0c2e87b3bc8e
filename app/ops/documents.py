"""The API's description: the committed OpenAPI document, and a page for people made from it."""

from __future__ import annotations

from functools import cache

from app.answers import Answer, answer
from app.incoming import Incoming
from app.ops.docs_page import render
from app.ops.scope import Scope
from app.paths import ROOT
from app.routes import Route

CONTENT_SECURITY_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def read_openapi(_scope: Scope, _incoming: Incoming) -> Answer:
    return answer(document())


def read_docs(_scope: Scope, _incoming: Incoming) -> Answer:
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
