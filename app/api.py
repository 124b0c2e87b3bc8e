"""The Flask application: routing, guards, and an answer for everything that can go wrong."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flask import Flask
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as RoutingMethodNotAllowed
from werkzeug.routing import Rule

from app.audiences import Audience, audiences
from app.db import DatabaseError, Pool
from app.settings import Settings
from app.web import metrics, problems
from app.web.auth import BearerGuard
from app.web.deferred import Later, LaterBody
from app.web.problems import Problem
from app.web.request import Environ, Request, request_id
from app.web.response import STATUS_LINES, Response, answer
from app.web.routes import Route

log = logging.getLogger("rvq.api")

View = Callable[..., Response | Later[Any]]
StartResponse = Callable[..., Any]


def create_app(settings: Settings, pool: Pool) -> Api:
    """The API over this pool. Opens nothing."""
    app = Api()
    for audience in audiences(settings, pool):
        for route in audience.routes:
            app.add_route(audience, route)
    return app


class Api(Flask):
    """Flask with the shortest path from request to answer: its routing, and nothing that handlers do not use.

    Contexts, sessions, signals and hooks are not run, so `flask.request` and its like are empty here: a
    handler is given an Request. Guards stand around each view; what every answer gets is done in one place.
    """

    def __init__(self) -> None:
        super().__init__("app", static_folder=None, template_folder=None)
        # One spelling of each path: neither is a redirect to another one.
        self.url_map.merge_slashes = False
        self.guards: dict[str, BearerGuard | None] = {}
        self.views: dict[str, View] = {}
        # Routes have no host in them: what a request is called by is nginx's matter.
        self._paths = self.url_map.bind("rvq")
        # Paths without a parameter, by method: found without asking Werkzeug.
        self._fixed: dict[tuple[str, str], Rule] = {}

    def add_route(self, audience: Audience, route: Route) -> None:
        endpoint = f"{audience.name}.{route.name}"
        self.guards[endpoint] = audience.guard
        self.views[endpoint] = _view(audience, route)
        methods = [route.method]
        self.add_url_rule(route.path, endpoint, methods=methods, provide_automatic_options=False)
        if "<" not in route.path:
            (self._fixed[route.method, route.path],) = self.url_map.iter_rules(endpoint)

    def wsgi_app(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answers whatever happens: nothing is raised from here."""
        exchange = _Exchange(environ, start_response, time.perf_counter())
        try:
            exchange.rule, path = self._route(environ)
            found = self.views[exchange.rule.endpoint](environ, **path)
        except Exception as error:
            found = self._answer_error(environ, error)
        if isinstance(found, Later):
            return LaterBody(found.call, partial(self._finish_later, exchange, found))
        return exchange.finish(found)

    def _finish_later(self, exchange: _Exchange, later: Later[Any]) -> Iterable[bytes]:
        try:
            found = later.answer()
        except Exception as error:
            found = self._answer_error(exchange.environ, error)
        return exchange.finish(found)

    def _route(self, environ: Environ) -> tuple[Rule, Mapping[str, Any]]:
        """Raises Werkzeug's HTTPException when there is none."""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if rule := self._fixed.get((method, path)):
            return rule, {}
        return self._paths.match(path.encode("latin-1").decode(errors="replace"), method, return_rule=True)

    def _answer_error(self, environ: Environ, error: Exception) -> Response:
        try:
            problem = self._problem_of(environ, error)
        except Problem as found:
            problem = found
        except Exception:
            log.exception("an error could not be answered")
            problem = problems.Unexpected()
        if isinstance(problem, problems.MethodNotAllowed) and environ["REQUEST_METHOD"] == "OPTIONS":
            return answer(b"", 204, problem.headers)
        metrics.count_problem(problem.code)
        body = problem.body(request_id(environ))
        return answer(body, problem.status, problem.headers, problems.MEDIA_TYPE)

    def _problem_of(self, environ: Environ, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, DatabaseError):
            log.warning("database: %s", error, extra={"request_id": request_id(environ)})
            return problems.problem_of(error)
        if isinstance(error, RoutingMethodNotAllowed):
            return self._wrong_method(environ, error)
        if isinstance(error, HTTPException) and error.code == 404:
            return problems.NotFound("no route has this path")
        log.exception("a request failed", extra={"request_id": request_id(environ)})
        return problems.Unexpected("the request could not be handled; the log has the details")

    def _wrong_method(self, environ: Environ, error: RoutingMethodNotAllowed) -> Problem:
        """405 with Allow; but an API that is switched off does not even say which methods it would have."""
        methods = list(error.valid_methods or ())
        if methods:
            rule, _ = self._route({**environ, "REQUEST_METHOD": methods[0]})
            guard = self.guards[rule.endpoint]
            if guard is not None:
                guard.require_enabled()
        allow = ", ".join(sorted({*methods, "OPTIONS"}))
        return problems.MethodNotAllowed(f"this path takes {allow}", headers=[("Allow", allow)])


@dataclass(slots=True)
class _Exchange:
    """One request and its answer. `rule`: the route that was found."""

    environ: Environ
    start_response: StartResponse
    started: float
    rule: Rule | None = None

    def finish(self, found: Response) -> Iterable[bytes]:
        """What every answer gets; its body."""
        method = self.environ["REQUEST_METHOD"]
        found.headers.append(("X-Request-Id", request_id(self.environ)))
        route, counted = (self.rule.rule, method) if self.rule else (metrics.UNROUTED, metrics.UNROUTED)
        metrics.observe_request(route, counted, found.status, time.perf_counter() - self.started)
        self.start_response(STATUS_LINES[found.status], found.headers)
        return () if method == "HEAD" else (found.body,)


def _view(audience: Audience, route: Route) -> View:
    """The handler behind its audience's guard; the token is looked at before anything else."""
    guard, handler, scope = audience.guard, route.handler, audience.scope

    def view(environ: Environ, **path: str) -> Response | Later[Any]:
        if guard is not None:
            guard.require_token(environ.get("HTTP_AUTHORIZATION"))
        return handler(scope, Request(environ), **path)

    return view
