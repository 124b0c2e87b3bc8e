"""The Flask application: routing, guards, and a response for everything that can go wrong."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as RoutingMethodNotAllowed

from app.audiences import Audience, audiences
from app.db import DatabaseError, Pool
from app.settings import Settings
from app.web import metrics, problems
from app.web.auth import BearerGuard
from app.web.problems import Problem
from app.web.request import Environ, Request
from app.web.response import STATUS_LINES, Deferred, Response
from app.web.routes import Route

log = logging.getLogger("rvq.api")

StartResponse = Callable[..., Any]


def create_app(settings: Settings, pool: Pool) -> Api:
    """Return the API over this pool; no connection is opened."""
    app = Api()
    for audience in audiences(settings, pool):
        for route in audience.routes:
            app.add_route(audience, route)
    return app


class Endpoint:
    """A route behind its audience's guard, which checks the token before anything else is looked at."""

    def __init__(self, audience: Audience, route: Route) -> None:
        self.guard: BearerGuard | None = audience.guard
        self.timer = metrics.RequestTimer(route.path, route.method)
        self._handler = route.handler
        self._context = audience.context

    def call(self, request: Request, path: Mapping[str, str]) -> Response | Deferred[Any]:
        if self.guard is not None:
            self.guard.require_token(request.environ.get("HTTP_AUTHORIZATION"))
        return self._handler(self._context, request, **path)


class Api(Flask):
    """Flask's routing, without the parts of Flask that no handler uses.

    Contexts, sessions, signals and hooks are not run, so `flask.request` and its like are empty: a handler
    is given a Request. Each route's guard runs before its handler; every response is finished in one place.
    """

    def __init__(self) -> None:
        super().__init__("app", static_folder=None, template_folder=None)
        # Each path has one spelling: another one is not redirected to it.
        self.url_map.merge_slashes = False
        self.endpoints: dict[str, Endpoint] = {}
        # Routes do not depend on the host name: checking it is nginx's task.
        self._paths = self.url_map.bind("rvq")
        # Routes without a parameter, by method and path: a lookup here is cheaper than Werkzeug's.
        self._fixed: dict[tuple[str, str], Endpoint] = {}

    def add_route(self, audience: Audience, route: Route) -> None:
        name = f"{audience.name}.{route.name}"
        endpoint = self.endpoints[name] = Endpoint(audience, route)
        self.add_url_rule(route.path, name, methods=[route.method], provide_automatic_options=False)
        if "<" not in route.path:
            self._fixed[route.method, route.path] = endpoint

    def wsgi_app(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Serve one request. Every error becomes a response: nothing is raised from here."""
        return _Exchange(self, Request(environ), start_response).begin()

    def find(self, method: str, path: str) -> tuple[Endpoint, Mapping[str, str]]:
        """Return the endpoint and the path's parameters. Raise Werkzeug's HTTPException if there is none."""
        if endpoint := self._fixed.get((method, path)):
            return endpoint, {}
        text = path.encode("latin-1").decode(errors="replace")
        name, parameters = self._paths.match(text, method)
        return self.endpoints[name], parameters

    def respond_to_error(self, request: Request, error: Exception) -> Response:
        try:
            problem = self._problem_of(request, error)
        except Problem as raised:
            problem = raised
        except Exception:
            log.exception("an error could not be answered")
            problem = problems.Unexpected()
        if isinstance(problem, problems.MethodNotAllowed) and request.method == "OPTIONS":
            return Response(b"", 204, problem.headers)
        metrics.count_problem(problem.code)
        return Response(problem.body(request.id), problem.status, problem.headers, problems.MEDIA_TYPE)

    def _problem_of(self, request: Request, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, DatabaseError):
            log.warning("database: %s", error, extra={"request_id": request.id})
            return problems.problem_of(error)
        if isinstance(error, RoutingMethodNotAllowed):
            return self._wrong_method(request, error)
        if isinstance(error, HTTPException) and error.code == 404:
            return problems.NotFound("no route has this path")
        log.exception("a request failed", extra={"request_id": request.id})
        return problems.Unexpected("the request could not be handled; the log has the details")

    def _wrong_method(self, request: Request, error: RoutingMethodNotAllowed) -> Problem:
        """Return a 405 with Allow; an API that is switched off does not say which methods it would have."""
        methods = list(error.valid_methods or ())
        if methods:
            endpoint, _ = self.find(methods[0], request.path)
            if endpoint.guard is not None:
                endpoint.guard.require_enabled()
        allow = ", ".join(sorted({*methods, "OPTIONS"}))
        return problems.MethodNotAllowed(f"this path takes {allow}", headers=[("Allow", allow)])


class _Exchange:
    """One request and its response.

    When the response is deferred, the exchange itself is the WSGI body: iterating it waits for the database
    call, then calls `start_response`, as PEP 3333 allows. A server may use `when_ready` instead of waiting.
    """

    __slots__ = ("_api", "_deferred", "_request", "_start_response", "_started", "_timer")

    def __init__(self, api: Api, request: Request, start_response: StartResponse) -> None:
        self._api = api
        self._request = request
        self._start_response = start_response
        self._started = time.perf_counter()
        self._timer = metrics.UNROUTED
        self._deferred: Deferred[Any] | None = None

    def begin(self) -> Iterable[bytes]:
        try:
            endpoint, path = self._api.find(self._request.method, self._request.path)
            self._timer = endpoint.timer
            response = endpoint.call(self._request, path)
        except Exception as error:
            response = self._api.respond_to_error(self._request, error)
        if isinstance(response, Deferred):
            self._deferred = response
            return self
        return self._finish(response)

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Call `callback` once iterating does not wait: now, or later in the thread that ends the call."""
        assert self._deferred
        self._deferred.future.when_done(callback)

    def __iter__(self) -> Iterator[bytes]:
        assert self._deferred
        try:
            response = self._deferred.render(self._deferred.future.result())
        except Exception as error:
            response = self._api.respond_to_error(self._request, error)
        return iter(self._finish(response))

    def _finish(self, response: Response) -> Iterable[bytes]:
        """Add the request id, record the duration and send the head; return the body."""
        response.headers.append(("X-Request-Id", self._request.id))
        self._timer[response.status // 100].observe(time.perf_counter() - self._started)
        self._start_response(STATUS_LINES[response.status], response.headers)
        return () if self._request.method == "HEAD" else (response.body,)
