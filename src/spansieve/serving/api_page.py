"""The page at `/docs`: the OpenAPI schema for reading, made here, so that nothing is loaded from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path
from string import Template
from typing import Any

PAGE = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))


def api_page(schema: Mapping[str, Any]) -> str:
    """Write an OpenAPI schema as an HTML page: each path, what it takes, and what it answers."""
    described = "".join(f"<p>{escape(part)}</p>" for part in schema["info"]["description"].split("\n\n"))
    operations = [
        _operation(method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    models = [_model(name, model) for name, model in schema["components"]["schemas"].items() if "properties" in model]
    return PAGE.substitute(body="\n".join([described, *operations, "<h2>What is sent and answered</h2>", *models]))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    taken = f"<p>Takes {_kind(body)}, as <code>application/json</code>.</p>" if body else ""
    answers = (
        (status, _kind(_content(answer)), escape(answer["description"]))
        for status, answer in operation["responses"].items()
    )
    title = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"
    return title + taken + _table(("status", "answer", ""), answers)


def _content(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    contents: Iterable[Mapping[str, Any]] = answer.get("content", {}).values()
    return next((content["schema"] for content in contents), {})


def _model(name: str, model: Mapping[str, Any]) -> str:
    needed = model.get("required", ())
    rows = (
        (
            f"<code>{escape(field)}</code>",
            _kind(about),
            escape(about.get("description", "")),
            "" if field in needed else f"<code>{escape(json.dumps(about.get('default')))}</code>",
        )
        for field, about in model["properties"].items()
    )
    title = f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(model.get("description", ""))}</p>'
    return title + _table(("field", "type", "", "default"), rows)


def _kind(about: Mapping[str, Any]) -> str:
    """The type of a value, with links to the models."""
    if "$ref" in about:
        name = escape(about["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in about:
        return " or ".join(map(_kind, about["anyOf"]))
    if "enum" in about:
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in about["enum"])
    kind = escape(str(about.get("type", "")))
    return f"{kind} of {_kind(about['items'])}" if "items" in about else kind


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
