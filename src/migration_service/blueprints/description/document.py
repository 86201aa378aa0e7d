"""The whole description: the operations that flask-smorest describes, and the parts that they share."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

from apispec.core import Components
from flask import Flask
from flask_smorest.spec.plugins import FlaskPlugin

from migration_service.blueprints.description.examples import NUMBER, SUPPLIER
from migration_service.blueprints.requests.description_headers import BY_STATUS, HEADERS, refer
from migration_service.blueprints.requests.errors import RETRY_LATER_CODES
from migration_service.schemas.events import CATALOGUE, EventData, EventSchema

INFO = {
    "summary": "Moves customer accounts from another supplier into the platform.",
    "description": "Validate an account, stage it, create it, then add notes, transactions, statements and "
    "payment instructions to it. Whole books of accounts are sent as batches.\n\n"
    "Every response has `X-Request-ID`. Send your own or note the one you received, "
    "and quote it when you ask the service operator for help. An error has a stable `code`, "
    "and in `errors` a path to each value at fault. Responses are compressed for clients that "
    "accept gzip, and bodies may be sent with `Content-Encoding: gzip`.",
    "contact": {"name": "The service operator, who issued your API key"},
}
#: The GraphQL mutation for tokens as an operation with JSON bodies: `schemas`, the operations `post` and
#: `get`, and of each failure of `post` its status, its kind, its code and its text.
_TOKEN: dict[str, Any] = json.loads(Path(__file__).with_name("token_operation.json").read_bytes())
#: The tags that differ from the name of the blueprint.
_TAGS = {"status": "Status and lists"}
_ACCESS = {"name": "Access", "description": "Obtain the token that every other operation requires."}
_NAME: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 128}
_ID: dict[str, Any] = {"type": "string", "format": "uuid"}
_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "import_supplier_code": {
        "description": "The code of the import supplier.",
        "schema": _NAME,
        "example": SUPPLIER,
    },
    "external_account_number": {
        "description": "The account's number at the import supplier, percent-encoded.",
        "schema": _NAME,
        "example": NUMBER,
    },
    "batch_id": {"description": "The id of the batch, as returned when it was started.", "schema": _ID},
    "later_batch_id": {"description": "The id of the batch to compare it with.", "schema": _ID},
    "attempt_id": {"description": "The id of the attempt, as returned when it was accepted.", "schema": _ID},
    "session_id": {"description": "The id of the session, as listed.", "schema": _ID},
    "go_live_id": {"description": "The id of the go-live, as returned when it was set.", "schema": _ID},
    "certificate_id": {
        "description": "The id of the certificate, as returned when it was started.",
        "schema": _ID,
    },
    "undo_id": {"description": "The id of the undo, as returned when it was started.", "schema": _ID},
    "subject": {
        "description": "The code of an import supplier, or the id of a batch or of a wave plan.",
        "schema": {"type": "string", "minLength": 1},
    },
    "webhook_id": {"description": "The id of the webhook, as returned when it was created.", "schema": _ID},
    "delivery_number": {
        "description": "The number of the delivery.",
        "schema": {"type": "integer", "minimum": 1},
    },
    "plan_id": {"description": "The id of the plan, as returned when it was created.", "schema": _ID},
    "name": {"description": "The name of the consumer.", "schema": _NAME},
    "number": {"description": "The number of the wave in its plan. The first is 1."},
}
#: Schemas that flask-smorest adds, and that nothing refers to.
_UNUSED = ("Error", "PaginationMetadata")

#: Status, name of the component, code of the example, and when it is returned.
_COMMON = (
    (400, "BadRequest", "parse_error", "The request is not HTTP, or its Host header names another service."),
    (404, "NotFound", "not_found", "Nothing exists at this path."),
    (414, "UriTooLong", "uri_too_long", "The address has more characters than the service accepts."),
    (431, "HeadersTooLarge", "headers_too_large", "The headers are larger than the service accepts."),
    (500, "Unexpected", "error", "An unexpected error. Nothing was changed."),
)
_WITH_BODY = (
    (411, "LengthRequired", "length_required", "The request does not state the length of its body."),
    (413, "BodyTooLarge", "request_too_large", "The body is larger than the service accepts. `detail` has "
     "the limit."),
    (415, "UnsupportedBody", "unsupported_media_type", "This operation does not accept bodies of this type."),
)  # fmt: skip
_METHODS = ("get", "post", "put", "patch", "delete")


def complete_description(app: Flask, description: dict[str, Any]) -> dict[str, Any]:
    """Return `description` with the parts that belong to no single view."""
    description["info"] |= INFO
    description["servers"] = [{"url": "/", "description": "The service that this description came from."}]
    description["security"] = [{"Token": []}]
    components = description["components"]
    components["headers"] = HEADERS
    components["responses"] = {
        name: _response(status, code, when) for status, name, code, when in (*_COMMON, *_WITH_BODY)
    }
    components["schemas"] |= _TOKEN["schemas"]
    for name in _UNUSED:
        del components["schemas"][name]
    for schema in components["schemas"].values():
        _tell_defaults(schema.get("properties", {}))
    _name_operations(app, description["paths"])
    for item in description["paths"].values():
        for parameter in item.get("parameters", []):
            parameter.update(_PATH_PARAMETERS.get(parameter["name"], {}))
    access = {"tags": [_ACCESS["name"]]}
    token = {method: operation | access for method, operation in _token_operations().items()}
    description["paths"] = {"/v1/graphql/": token} | description["paths"]
    for item in description["paths"].values():
        for operation in _operations(item):
            _complete_operation(operation)
    description["webhooks"] = _webhooks()
    tags = [tag | {"name": _tag(tag["name"])} for tag in description.get("tags", [])]
    description["tags"] = [_ACCESS, *tags]
    return description


def _tell_defaults(members: dict[str, dict[str, Any]]) -> None:
    """Say defaults in words: generators of code require members that have a `default`."""
    for member in members.values():
        if "default" in member:
            member["description"] += f" The default is {json.dumps(member.pop('default'))}."


def _token_operations() -> dict[str, Any]:
    """Return both operations. Each response has both media types of GraphQL over HTTP."""
    operations = {method: json.loads(json.dumps(_TOKEN[method])) for method in ("post", "get")}
    answer = {"$ref": "#/components/schemas/TokenAnswer"}
    # A request can also be refused before GraphQL runs.
    either = {"anyOf": [answer, {"$ref": "#/components/schemas/ErrorBody"}]}
    for status, (kind, code, detail) in _TOKEN["failures"].items():
        extensions = {"errorType": kind, "errorCode": code, "errorDescription": detail}
        operations["post"]["responses"][status] = {
            "description": detail,
            "content": {
                "schema": either if status in ("400", "503") else answer,
                "example": {"errors": [{"message": detail, "extensions": extensions}]},
            },
        }
    for operation in operations.values():
        for response in operation["responses"].values():
            media = response["content"]
            response["content"] = {"application/json": media, "application/graphql-response+json": media}
    return operations


def _operations(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (item[method] for method in _METHODS if method in item)


def _tag(blueprint: str) -> str:
    return _TAGS.get(blueprint, blueprint.replace("_", " ").capitalize())


def _name_operations(app: Flask, paths: dict[str, Any]) -> None:
    """Give each operation its security, its tag, and the name that generated clients give to a function."""
    for rule in app.url_map.iter_rules():
        item = paths.get(FlaskPlugin.flaskpath2openapi(rule.rule), {})
        blueprint, _, name = rule.endpoint.rpartition(".")
        for method in rule.methods or ():
            if operation := item.get(method.lower()):
                operation.setdefault("security", [{"Token": []}])
                operation |= {"tags": [_tag(blueprint)], "operationId": name}


def _complete_operation(operation: dict[str, Any]) -> None:
    for status, response in operation["responses"].items():
        headers = refer("X-Request-ID", *BY_STATUS.get(status, ()))
        if status == "400" and any(code in str(response) for code in RETRY_LATER_CODES):
            headers |= refer("Retry-After")
        response["headers"] = headers | response.get("headers", {})
    common = (*_COMMON, *_WITH_BODY) if "requestBody" in operation else _COMMON
    references = {str(it[0]): {"$ref": f"#/components/responses/{it[1]}"} for it in common}
    operation["responses"] = dict(sorted((references | operation["responses"]).items()))


def _response(status: int, code: str, when: str) -> dict[str, Any]:
    item = {"detail": when, "code": code, "attr": None}
    return {
        "description": f"{HTTPStatus(status).phrase}. {when}",
        "headers": refer("X-Request-ID"),
        "content": {
            "application/json": {
                "schema": {"$ref": "#/components/schemas/ErrorBody"},
                "example": {"detail": when, "code": code, "errors": [item]},
            }
        },
    }


def add_event_schemas(components: Components) -> None:
    """Add the schema of an event, and that of the data of each type."""
    components.schema(_name(EventSchema), schema=EventSchema)
    for kind in CATALOGUE.values():
        components.schema(_name(kind), schema=kind)


def _webhooks() -> dict[str, Any]:
    """Return the requests that tell of events, by their type (OpenAPI 3.1)."""
    return {kind.type.value: {"post": _webhook(kind)} for kind in CATALOGUE.values()}


def _webhook(kind: type[EventData]) -> dict[str, Any]:
    about = {
        "type": "object",
        "properties": {
            "type": {"const": kind.type.value, "description": "The type."},
            "data": {"$ref": _reference(kind), "description": "What happened."},
        },
        "required": ["type", "data"],
    }
    media = {"schema": {"allOf": [{"$ref": _reference(EventSchema)}, about]}, "example": kind.event()}
    return {
        "operationId": f"receive_{kind.type.value.replace('.', '_')}",
        "summary": kind.meaning().partition(". ")[0].rstrip("."),
        "description": kind.meaning(),
        "tags": ["Events"],
        "security": [],
        "requestBody": {"required": True, "content": {"application/json": media}},
        "responses": {"2XX": {"description": "The event was received."}},
    }


def _reference(schema: type) -> str:
    return f"#/components/schemas/{_name(schema)}"


def _name(schema: type) -> str:
    return schema.__name__.removesuffix("Schema")
