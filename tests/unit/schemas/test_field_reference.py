"""The schema of every field describes it. The page and OpenAPI are generated from the schemas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from marshmallow import Schema

import migration_service.app  # noqa: F401  (it imports what defines schemas)
from migration_payloads.schemas.base import Fields, load
from migration_service import schemas

EXAMPLE = json.loads(Path(schemas.__file__).with_name("example_account.json").read_text())


def _schemas(base: type[Schema] = Fields) -> Iterator[type[Schema]]:
    """Yield the schemas of all that is read, which the modules of the application define."""
    for schema in base.__subclasses__():
        if schema.__module__.startswith("migration_service."):
            yield schema
        yield from _schemas(schema)


def test_every_field_has_a_description_and_an_example_that_its_schema_loads() -> None:
    for schema in _schemas():
        for name, field in schema().fields.items():
            assert field.metadata.get("description", "").endswith("."), (schema, name)
            assert "example" in field.metadata, (schema, name)
            text = json.dumps({name: field.metadata["example"]}, default=str)
            sent = json.loads(text, parse_float=str)
            alone = Schema.from_dict({name: schema().fields[name]})()
            assert load(alone, sent)[1] == [], (schema, name)


@pytest.fixture(scope="module")
def components() -> Any:
    spec = APISpec("t", "1", "3.1.0", plugins=[MarshmallowPlugin()])
    for schema in _schemas():
        name = schema.__name__.removesuffix("Schema")
        if schema().fields and name not in spec.components.schemas:
            spec.components.schema(name, schema=schema)
    return spec.to_dict()["components"]["schemas"]


def test_the_stored_example_is_valid_against_the_described_schema(components: Any) -> None:
    described = {"$ref": "#/components/schemas/AccountImport", "components": {"schemas": components}}
    text = json.dumps(described, default=str)
    validator = jsonschema_rs.Draft202012Validator(json.loads(text))
    assert [error.message for error in validator.iter_errors(EXAMPLE)] == []
    broken = {**EXAMPLE, "unknown_occupier": 5}
    assert not validator.is_valid(broken)


def test_types_are_described_as_they_are_sent(components: Any) -> None:
    account = components["AccountImport"]["properties"]
    assert account["unknown_occupier"]["type"] == ["boolean", "string"]
    assert components["Transaction"]["properties"]["amount"]["type"] == ["number", "string"]
    template = components["MonthlyAdvanceChargeTemplate"]["properties"]["total_monthly_advance_amount"]
    assert template["type"] == "string"
    assert "pattern" in template
    for name in ("start_at", "end_at"):
        moment = components["EstimatedAnnualVolume"]["properties"][name]
        assert "format" not in moment
        assert "pattern" in moment
    assert components["EstimatedAnnualVolume"]["properties"]["end_at"]["type"] == ["string", "null"]
    assert "enum" not in components["Transaction"]["properties"]["reason"]
    assert "enum" in components["Transaction"]["properties"]["type"]
    assert components["ProcessRequest"]["additionalProperties"] is False
    assert "additionalProperties" not in components["Transaction"]
