"""A client that compares the status, headers and body of every answer with the description.

So the description stays true. A test fails if it gets an answer that the description does not have.
"""

import json
import re
from functools import cache
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.routing import RequestRedirect
from werkzeug.test import TestResponse

#: Headers that HTTP itself describes. The description does not list them.
_OF_HTTP = {
    *("Content-Type", "Content-Length", "Vary", "Date", "Allow", "Cache-Control"),
    *("X-Content-Type-Options", "Referrer-Policy", "Content-Security-Policy"),
}


class DescribedClient(FlaskClient):
    """The `test_client_class` of the application under test."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        """Send a request. Raise AssertionError if the answer is not what the description says.

        The answer is read to its end, which ends the request, unless `buffered` is false.
        """
        kwargs.setdefault("buffered", True)
        answer = super().open(*args, **kwargs)
        operation = self._operation(answer)
        if operation is not None and answer.request.method not in ("OPTIONS", "HEAD"):
            _check(self.application, operation, answer)
        return answer

    def _operation(self, answer: TestResponse) -> dict[str, Any] | None:
        """Return the description of the operation that answered, or None if it was none."""
        adapter = self.application.url_map.bind("localhost")
        path = unquote(answer.request.path)
        try:
            rule, _ = adapter.match(path, method=answer.request.method, return_rule=True)
        except RequestRedirect:
            rule, _ = adapter.match(path + "/", method=answer.request.method, return_rule=True)
        except Exception:  # whatever is wrong with the path, no operation has it
            return None
        template = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        item = _description(self.application)["paths"].get(template, {})
        operation: dict[str, Any] | None = item.get(answer.request.method.lower())
        return operation


def _check(app: Flask, operation: dict[str, Any], answer: TestResponse) -> None:
    name = f"{operation['operationId']}, {answer.status_code}"
    response = operation["responses"].get(str(answer.status_code))
    assert response is not None, f"{name}: the description does not have this status"
    response = _resolve(_description(app), response)
    unknown = set(answer.headers.keys()) - _OF_HTTP - set(response.get("headers", {}))
    assert not unknown, f"{name}: the description does not have these headers: {unknown}"
    for header, reference in response.get("headers", {}).items():
        if value := answer.headers.get(header):
            schema = _resolve(_description(app), reference)["schema"]
            number = schema["type"] == "integer"
            _validator(app, json.dumps(schema)).validate(int(value) if number else value)
    content = response.get("content", {})
    assert answer.mimetype in content, f"{name}: the description does not have {answer.mimetype}"
    schema = content[answer.mimetype]["schema"]
    for body in _bodies(answer) if schema.get("type") != "string" else [answer.get_data(as_text=True)]:
        _validator(app, json.dumps(schema, sort_keys=True)).validate(body)


def _bodies(answer: TestResponse) -> list[Any]:
    match answer.mimetype:
        case "application/json" | "application/graphql-response+json":
            return [json.loads(answer.data)]
        case "application/x-ndjson":
            return [json.loads(line) for line in answer.data.splitlines()]
    return [answer.get_data(as_text=True)]


@cache
def _description(app: Flask) -> dict[str, Any]:
    """Return the description of `app`, in which no object may have members that it does not list."""
    text = FlaskClient(app, TestResponse).get("/v1/openapi.json").get_data()
    closed: dict[str, Any] = close(json.loads(text))
    return closed


def close(value: Any) -> Any:
    """Return a description, or a schema, in which no object may have members that it does not list."""
    if isinstance(value, list):
        return [close(item) for item in value]
    if not isinstance(value, dict):
        return value
    closed = {name: close(below) for name, below in value.items()}
    if isinstance(value.get("properties"), dict) and "type" in value:
        closed.setdefault("additionalProperties", False)
    return closed


def _resolve(description: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    reference = value.get("$ref")
    if reference is None:
        return value
    target = description
    for part in reference.removeprefix("#/").split("/"):
        target = target[part]
    return target


@cache
def _validator(app: Flask, schema: str) -> Any:
    whole = {**json.loads(schema), "components": _description(app)["components"]}
    return jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
