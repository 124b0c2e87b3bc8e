"""Who may call: each audience with its own tokens, and nobody where none is configured."""

from __future__ import annotations

import re
from typing import Any

import pytest

from app.audiences import TABLE
from app.web.routes import Route
from tests.app.rig import TOKENS, Caller, make_caller
from tests.support.database import Database

PATH_VALUES = {"task_id": "task_7fff000000000000", "delivery_id": "dlv_7fff000000000000", "queue": "q"}
GUARDED = [(name, route) for name, routes in TABLE if name != "everyone" for route in routes]
OPEN = [route for name, routes in TABLE if name == "everyone" for route in routes]
guarded = pytest.mark.parametrize(
    ("audience", "route"), GUARDED, ids=[f"{route.method} {route.path}" for _, route in GUARDED]
)
audience_names = pytest.mark.parametrize("audience", list(TOKENS))


def path_of(route: Route) -> str:
    return re.sub(r"<(\w+)>", lambda match: PATH_VALUES[match[1]], route.path)


def call(api: Caller, route: Route, token: str | None, **more: Any) -> Any:
    return api.call(route.method, path_of(route), b"{}" if route.body else None, token=token, **more)


def test_every_route_of_the_application_has_an_audience(session_caller: Caller) -> None:
    app = session_caller.app
    served = {
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in set(rule.methods or ()) - {"HEAD"}
    }
    documented = {(route.method, route.path) for _, routes in TABLE for route in routes}
    assert served == documented
    unguarded = {rule.rule for rule in app.url_map.iter_rules() if app.endpoints[rule.endpoint].guard is None}
    assert unguarded == {"/healthz", "/readyz", "/openapi.json", "/docs"}


@guarded
def test_the_audiences_own_token_is_let_in(api: Caller, audience: str, route: Route) -> None:
    assert call(api, route, TOKENS[audience]).status not in (401, 405, 500)


@guarded
def test_no_token_and_a_wrong_one_are_401(api: Caller, audience: str, route: Route) -> None:
    own = TOKENS[audience]
    for header in [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Bearer {own}x",
        f"Bearer {own[:-1]}",
        f"Bearer {own} {own}",
        f"Bearer {own},",
        f"Basic {own}",
        own,
        "Bearer \xff\xfe",
    ]:
        response = call(api, route, None, headers={} if header is None else {"Authorization": header})
        response.problem(401, "unauthorized")
        assert response.headers["WWW-Authenticate"].startswith("Bearer")


@guarded
def test_another_audiences_token_is_401(api: Caller, audience: str, route: Route) -> None:
    for other in set(TOKENS) - {audience}:
        call(api, route, TOKENS[other]).problem(401, "unauthorized")


@guarded
def test_without_its_token_configured_the_api_is_off(
    database: Database, pool: Any, audience: str, route: Route
) -> None:
    api = make_caller(database.url, pool, **{f"APP_{audience.upper()}_TOKEN": None})
    for token in (None, TOKENS[audience], "", *TOKENS.values()):
        call(api, route, token).problem(404, "api_disabled")
    api.call("PUT", path_of(route), token=TOKENS[audience]).problem(404, "api_disabled")
    api.call("OPTIONS", path_of(route)).problem(404, "api_disabled")


@audience_names
def test_switching_one_api_off_leaves_the_others_on(database: Database, pool: Any, audience: str) -> None:
    api = make_caller(database.url, pool, **{f"APP_{audience.upper()}_TOKEN": None})
    for other, route in GUARDED:
        if other != audience:
            assert call(api, route, TOKENS[other]).status not in (401, 500)
    assert api.call("GET", "/healthz").status == 200


@audience_names
def test_every_token_of_a_rotation_is_let_in(database: Database, pool: Any, audience: str) -> None:
    newer = "another-token-0123456789"
    changes = {f"APP_{audience.upper()}_TOKEN": f"{newer},{TOKENS[audience]}"}
    api = make_caller(database.url, pool, **changes)
    for name, route in GUARDED:
        if name == audience:
            for token in (newer, TOKENS[audience]):
                assert call(api, route, token).status not in (401, 404) or "<" in route.path


def test_the_scheme_may_be_written_in_any_case(api: Caller) -> None:
    for scheme in ("bearer", "BEARER", "Bearer "):
        headers = {"Authorization": f"{scheme} {TOKENS['partner']}"}
        assert api.call("GET", "/v1/stats", headers=headers).status == 200


def test_the_token_is_looked_at_before_the_body(api: Caller) -> None:
    for body in (b"{", b"x" * (17 * 1024 * 1024)):
        api.call("POST", "/v1/tasks", body).problem(401)


@pytest.mark.parametrize("route", OPEN, ids=lambda route: route.path)
def test_what_is_for_everyone_asks_for_no_token(api: Caller, route: Route) -> None:
    assert call(api, route, None).status == 200


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v2/tasks", "/v1/tasks/", "//v1/tasks", "/v1//tasks", "/V1/tasks"]
)
def test_a_path_that_does_not_exist_is_404(api: Caller, path: str) -> None:
    for method in ("GET", "POST", "OPTIONS", "DELETE"):
        api.call(method, path, token=TOKENS["partner"]).problem(404, "not_found")


@pytest.mark.parametrize("path", ["/v1/tasks/%00", "/v1/tasks/%ff", "/v1/tasks/%2e%2e", "/v1/tasks/a%2Fb"])
def test_a_strange_path_is_404(api: Caller, path: str) -> None:
    api.call("GET", path, token=TOKENS["partner"]).problem(404)


@guarded
def test_another_method_is_405_with_those_allowed(api: Caller, audience: str, route: Route) -> None:
    for method in ("PUT", "PATCH", "DELETE", "TRACE"):
        response = api.call(method, path_of(route), token=TOKENS[audience])
        response.problem(405, "method_not_allowed")
        assert route.method in response.headers["Allow"].split(", ")


@guarded
def test_options_tells_the_methods(api: Caller, audience: str, route: Route) -> None:
    response = api.call("OPTIONS", path_of(route))
    assert (response.status, response.body) == (204, b"")
    assert {route.method, "OPTIONS"} <= set(response.headers["Allow"].split(", "))


@pytest.mark.parametrize(
    ("audience", "route"), [(name, route) for name, route in GUARDED if route.method == "GET"]
)
def test_head_is_get_without_the_body(api: Caller, audience: str, route: Route) -> None:
    path, token = path_of(route), TOKENS[audience]
    got, head = api.call("GET", path, token=token), api.call("HEAD", path, token=token)
    assert (head.status, head.body) == (got.status, b"")
    assert head.headers["Content-Type"] == got.headers["Content-Type"]


@pytest.mark.parametrize("given", ["abc", "a" * 128, "0af7651916cd43dd8448eb211c80319c", "a:b/c=d+e.f_g-h"])
def test_a_sane_request_id_is_kept(api: Caller, given: str) -> None:
    for path, status in (("/v1/stats", 200), ("/nowhere", 404)):
        response = api.partner("GET", path, headers={"X-Request-Id": given})
        assert (response.status, response.headers["X-Request-Id"]) == (status, given)


@pytest.mark.parametrize("given", ["", " ", "a b", "a" * 129, "ä", 'x"y', "<script>", "a\tb"])
def test_any_other_request_id_is_replaced(api: Caller, given: str) -> None:
    responses = [api.partner("GET", "/v1/stats", headers={"X-Request-Id": given}) for _ in range(2)]
    made = {response.headers["X-Request-Id"] for response in responses}
    assert len(made) == 2
    assert given not in made


@pytest.mark.parametrize("code", [401, 404, 405, 422])
def test_a_problem_names_no_token_and_no_sql(api: Caller, code: int) -> None:
    responses = {
        401: api.call("GET", "/v1/stats", token="wrong-token-0123456789"),
        404: api.partner("GET", "/v1/tasks/none"),
        405: api.partner("PUT", "/v1/tasks"),
        422: api.partner("POST", "/v1/tasks", b"{}"),
    }
    text = responses[code].body.decode()
    responses[code].problem(code)
    assert not re.search(r"token-0123456789|SELECT|rvq\.|Traceback|\.py", text)
