"""The catalogue of events in the description: a schema for the data of each type, and the webhooks."""

from typing import Any

from apispec.core import Components

from migration_service.schemas.events import CATALOGUE, EventKind, EventSchema


def add_event_schemas(components: Components) -> None:
    """Add the schema of an event, and that of the data of each type."""
    components.schema(_name(EventSchema), schema=EventSchema)
    for kind in CATALOGUE.values():
        components.schema(_name(kind.schema), schema=kind.schema)


def describe_webhooks() -> dict[str, Any]:
    """Return the requests that tell of events, by their type (OpenAPI 3.1)."""
    return {kind.type.value: {"post": _describe(kind)} for kind in CATALOGUE.values()}


def _describe(kind: EventKind) -> dict[str, Any]:
    about = {
        "type": "object",
        "properties": {
            "type": {"const": kind.type.value, "description": "The type."},
            "data": {"$ref": _reference(kind.schema), "description": "What happened."},
        },
        "required": ["type", "data"],
    }
    media = {"schema": {"allOf": [{"$ref": _reference(EventSchema)}, about]}, "example": kind.example}
    return {
        "operationId": f"receive_{kind.type.value.replace('.', '_')}",
        "summary": kind.meaning.partition(". ")[0].rstrip("."),
        "description": kind.meaning,
        "tags": ["Events"],
        "security": [],
        "requestBody": {"required": True, "content": {"application/json": media}},
        "responses": {"2XX": {"description": "The event was received."}},
    }


def _reference(schema: type) -> str:
    return f"#/components/schemas/{_name(schema)}"


def _name(schema: type) -> str:
    return schema.__name__.removesuffix("Schema")
