"""The API's description as one page of HTML: no script, nothing loaded from anywhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

Schema = dict[str, Any]

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }
h2 { margin-top: 3rem; border-bottom: 1px solid #ccc }
h3 { margin-top: 2rem }
code, pre { font-family: ui-monospace, monospace; font-size: .9em }
pre { background: #f4f4f4; padding: .8rem; overflow: auto }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd; vertical-align: top }
.method { display: inline-block; min-width: 3.5rem; font-weight: 700 }
nav a { display: block }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818 } pre { background: #242424 } a { color: #8cf }
}
"""


def render(document: bytes) -> str:
    """Return the page for an OpenAPI document that app/openapi.py built."""
    api = json.loads(document)
    operations = [
        (method.upper(), path, operation)
        for path, methods in api["paths"].items()
        for method, operation in methods.items()
    ]
    parts = [
        f"<h1>{escape(api['info']['title'])}</h1><p>{_text(api['info']['description'])}</p>",
        '<p>The same for programs: <a href="/openapi.json">openapi.json</a></p>',
        _contents(api, operations),
        *(_audience(tag["name"], operations) for tag in api["tags"]),
        _problems(api["x-problems"]),
        _schemas(api["components"]["schemas"]),
    ]
    title = escape(api["info"]["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}: the API</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<style>{STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _contents(api: Schema, operations: list[tuple[str, str, Schema]]) -> str:
    links = "".join(
        f'<a href="#{escape(operation["operationId"])}"><code><span class="method">{method}</span> '
        f"{escape(path)}</code> {escape(operation['summary'])}</a>"
        for tag in api["tags"]
        for method, path, operation in operations
        if operation["tags"] == [tag["name"]]
    )
    return f"<nav>{links}</nav>"


def _audience(name: str, operations: list[tuple[str, str, Schema]]) -> str:
    own = [_operation(*entry) for entry in operations if entry[2]["tags"] == [name]]
    return f"<h2>{escape(name.capitalize())}</h2>{''.join(own)}"


def _operation(method: str, path: str, operation: Schema) -> str:
    anchor = escape(operation["operationId"])
    parts = [f'<h3 id="{anchor}"><code>{method} {escape(path)}</code></h3>']
    parts.append(f"<p>{_text(operation['summary'])}. {_text(operation.get('description', ''))}</p>")
    parameters = [(p["name"], p["in"], json.dumps(p["schema"])) for p in operation.get("parameters", ())]
    if parameters:
        parts.append(_table(("Parameter", "In", "Schema"), parameters))
    if "requestBody" in operation:
        parts.append(f"<p>Body: {_reference(operation['requestBody']['content'])}</p>")
    rows = "".join(
        f"<tr><td>{status}<td>{_text(response['description'])}<td>{_reference(response['content'])}"
        for status, response in operation["responses"].items()
    )
    parts.append(f"<table><tr><th>Status<th>Meaning<th>Body{rows}</table>")
    return "".join(parts)


def _reference(content: Schema) -> str:
    ((media_type, body),) = content.items()
    name = body.get("schema", {}).get("$ref", "").rpartition("/")[2]
    link = f'<a href="#schema-{escape(name)}">{escape(name)}</a> ' if name else ""
    return f"{link}<code>{escape(media_type)}</code>"


def _problems(kinds: list[Schema]) -> str:
    rows = "".join(
        f'<tr id="problem-{escape(kind["code"])}"><td>{kind["status"]}<td><code>{escape(kind["code"])}</code>'
        f"<td>{escape(kind['title'])}"
        for kind in kinds
    )
    return f"<h2>Problems</h2><table><tr><th>Status<th>Code<th>Title{rows}</table>"


def _schemas(schemas: Schema) -> str:
    parts = "".join(
        f'<h3 id="schema-{escape(name)}">{escape(name)}</h3><p>{_text(schema.get("description", ""))}</p>'
        f"<pre>{escape(json.dumps(schema.get('properties', schema), indent=1, ensure_ascii=False))}</pre>"
        for name, schema in schemas.items()
    )
    return f"<h2>Schemas</h2>{parts}"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    heads = "".join(f"<th>{escape(cell)}" for cell in head)
    body = "".join("<tr>" + "".join(f"<td><code>{escape(cell)}</code>" for cell in row) for row in rows)
    return f"<table><tr>{heads}{body}</table>"


def _text(text: str) -> str:
    """Return prose as HTML, with its `code` marked."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if index % 2 else piece for index, piece in enumerate(pieces))
