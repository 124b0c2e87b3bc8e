"""The OpenAPI document, built from the route table, the request structs and the response schemas.

`python -m app.openapi` rewrites the committed app/openapi.json; a test compares the two.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from app.audiences import TABLE
from app.paths import ROOT
from app.web import problems
from app.web.problems import Problem
from app.web.request import MAX_BODY
from app.web.routes import Route
from app.web.schemas import ProblemDocument
from app.web.strict_json import MAX_DEPTH

Schema = dict[str, Any]

FILE = ROOT / "app" / "openapi.json"
REFERENCE = "#/components/schemas/{name}"
SUMMARY = f"""RVQ takes a task made of independent sub_tasks, lets workers do them side by side, and sends one
signed webhook when the last one has ended. Each audience has its own bearer token; an API whose token is
not configured answers 404 `api_disabled`. Bodies are JSON of at most {MAX_BODY} bytes, nested at most
{MAX_DEPTH} levels; members that are not described are refused with 422. JSON that is passed on (payload,
result, error, metadata) comes back byte for byte. Ids, lease tokens and cursors are opaque. Every response
has an `X-Request-Id`. 503 comes with `Retry-After`: try again later, it is safe."""
_PARAMETER = re.compile(r"<([a-z_]+)>")


def build() -> Schema:
    routes = [(audience, route) for audience, table in TABLE for route in table]
    paths: dict[str, Schema] = {}
    for audience, route in routes:
        path = _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(audience, route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "RVQ", "version": "1", "description": " ".join(SUMMARY.split())},
        "tags": [{"name": name} for name, _ in TABLE],
        "paths": paths,
        "components": {
            "securitySchemes": {
                name: {"type": "http", "scheme": "bearer"} for name, _ in TABLE if name != "everyone"
            },
            "schemas": _schemas([route for _, route in routes]),
        },
        "x-problems": [_problem(kind) for kind in problems.all_problems()],
    }


def text() -> str:
    """Return the document as it is committed."""
    return json.dumps(build(), indent=1, ensure_ascii=False) + "\n"


def _operation(audience: str, route: Route) -> Schema:
    summary, details = route.description
    operation: Schema = {
        "tags": [audience],
        "operationId": f"{audience}_{route.name}",
        "summary": summary,
        "description": details,
        "parameters": _parameters(route),
        "security": [] if audience == "everyone" else [{audience: []}],
        "responses": _responses(audience, route),
    }
    if route.body is not None:
        reference = {"$ref": REFERENCE.format(name=route.body.__name__)}
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return {name: value for name, value in operation.items() if value or name == "security"}


def _parameters(route: Route) -> list[Schema]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(route.path)
    ]
    parameters += [{"name": one.name, "in": "query", "schema": dict(one.schema)} for one in route.query]
    key = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"}
    parameters += [{"name": name, "in": "header", "schema": key} for name in route.headers]
    return parameters


def _responses(audience: str, route: Route) -> Schema:
    responses: Schema = {str(status): _response(schema) for status, schema in route.responses.items()}
    kinds: list[type[Problem]] = list(route.problems)
    if audience != "everyone":
        kinds += [problems.Unauthorized, problems.ApiDisabled]
        kinds += [problems.OverBudget, problems.DatabaseAway, problems.TimedOut, problems.OutcomeIsUnknown]
    if route.body is not None:
        kinds += [problems.MalformedBody, problems.TooLarge, problems.UnsupportedMedia]
    if route.body is not None or route.query:
        kinds.append(problems.Invalid)
    for status in sorted({kind.status for kind in kinds}):
        codes = ", ".join(f"`{kind.code}`" for kind in kinds if kind.status == status)
        reference = {"$ref": REFERENCE.format(name=ProblemDocument.__name__)}
        content = {problems.MEDIA_TYPE: {"schema": reference}}
        responses[str(status)] = {"description": codes, "content": content}
    return responses


def _response(schema: Any) -> Schema:
    if isinstance(schema, str):
        return {"description": "OK", "content": {schema: {}}}
    reference = {"$ref": REFERENCE.format(name=schema.__name__)}
    return {"description": "OK", "content": {"application/json": {"schema": reference}}}


def _schemas(routes: list[Route]) -> Schema:
    types = [route.body for route in routes if route.body is not None]
    types += [
        schema for route in routes for schema in route.responses.values() if not isinstance(schema, str)
    ]
    types.append(ProblemDocument)
    _, schemas = msgspec.json.schema_components(types, ref_template=REFERENCE)
    return {name: _for_javascript(schema) for name, schema in sorted(schemas.items())}


def _for_javascript(schema: Any) -> Any:
    """Return the schema with patterns as JSON Schema has them: ECMAScript knows no \\A and \\Z."""
    if isinstance(schema, dict):
        return {key: _for_javascript(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [_for_javascript(value) for value in schema]
    if isinstance(schema, str):
        return schema.replace(r"\A", "^").replace(r"\Z", "$")
    return schema


def _problem(kind: type[Problem]) -> Schema:
    return {"code": kind.code, "status": kind.status, "title": kind.title()}


if __name__ == "__main__":
    FILE.write_text(text())
