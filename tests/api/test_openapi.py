"""The interface description is complete, its examples are valid, and its page needs no other host."""

import re
from collections.abc import Iterator
from typing import Any

from flask import Flask
from jsonschema_rs import Draft202012Validator, meta

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.schemas.account import load_account
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.blueprints.description.error_catalogue import (
    Place,
    field_errors,
    request_errors,
    rule_errors,
)
from migration_service.blueprints.description.examples import ACCOUNT
from migration_service.blueprints.requests.errors import HTTP_CODES
from support.mutations import TODAY


def _operations(description: Any) -> list[tuple[str, str, Any]]:
    return [
        (path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if method in ("get", "post", "put", "delete", "patch")
    ]


def test_each_route_of_the_interface_is_described(app: Flask, description: Any) -> None:
    assert (description["openapi"], description["info"]["version"]) == ("3.1.0", "v1")
    routes = {
        re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/v1/data-import/")
    }
    assert routes | {"/v1/graphql/"} == set(description["paths"])


def test_each_code_is_of_an_answer_of_a_line_or_of_operators(description: Any) -> None:
    """An error of a command or of the console derives from OperatorError."""
    described = {
        code
        for _, _, operation in _operations(description)
        for answer in operation["responses"].values()
        for code in answer.get("content", {}).get("application/json", {}).get("examples", {})
    }
    for entry in request_errors():
        if entry.place != Place.ANSWER:
            assert entry.code not in described, entry
        else:
            # The rest is answered before an operation is found, or whatever it is.
            assert entry.code in described | _BEFORE_AN_OPERATION, entry


_BEFORE_AN_OPERATION = {
    *HTTP_CODES.values(),
    *("error", "host_not_allowed", "invalid", "throttled", "too_many_sessions", "upload_storage_full"),
}


def test_an_operation_that_validates_names_every_code_of_a_value(description: Any) -> None:
    of_fields = {entry.code for entry in field_errors()}
    of_accounts = of_fields | {entry.code for entry in rule_errors()}
    for _, _, operation in _operations(description):
        for code, within in _codes_within(operation["responses"]["400"].get("description", "")).items():
            expected = {"request_failed_validation": of_fields, "account_failed_validation": of_accounts}
            assert within == expected.get(code, set()), (operation["operationId"], code)


def _codes_within(text: str) -> dict[str, set[str]]:
    """Return the codes of the errors that a description lists, with those that each can have within."""
    entries = [entry.partition("Codes within: ") for entry in text.split("\n* ")[1:]]
    return {first.split("`")[1]: set(re.findall("`(.+?)`", within)) for first, _, within in entries}


def test_each_schema_is_valid_and_each_example_satisfies_its_schema(description: Any) -> None:
    components = {"components": description["components"]}
    for schema in description["components"]["schemas"].values():
        meta.validate(schema)
    found = list(_media(description))
    assert len(found) > 100
    validators: dict[str, Draft202012Validator] = {}
    for media in found:
        schema = media["schema"]
        if not (validator := validators.get(str(schema))):
            validator = Draft202012Validator(schema | components, validate_formats=True)
            validators[str(schema)] = validator
        examples = [example["value"] for example in media.get("examples", {}).values()]
        for example in [*examples, *([media["example"]] if "example" in media else [])]:
            validator.validate(example)


def _media(value: Any) -> Iterator[Any]:
    """Yield every object of the description that has a schema and examples."""
    if isinstance(value, list):
        for item in value:
            yield from _media(item)
    elif isinstance(value, dict):
        if "schema" in value and {"example", "examples"} & set(value):
            yield value
        for below in value.values():
            yield from _media(below)


def test_each_body_has_an_example(description: Any) -> None:
    for path, method, operation in _operations(description):
        if method == "post" and "requestBody" in operation:
            media = operation["requestBody"]["content"].values()
            assert any("example" in it or "examples" in it for it in media), path


def test_the_example_account_passes_every_rule() -> None:
    loaded = load_account(parse_json(encode_json(ACCOUNT)))
    data, errors = loaded.data, loaded.errors
    assert errors == []
    assert check_account(data, profile=Profile.STRICT, today=TODAY) == []


def test_the_page_loads_nothing_from_another_host(app: Flask) -> None:
    client = app.test_client()
    page = client.get("/v1/docs/")
    text = page.get_data(as_text=True)
    assets = re.findall(r'(?:src|href)="([^"]+)"', text)
    assert assets
    for asset in assets:
        assert asset.startswith("/v1/docs/assets/")
        with client.get(asset) as answer:
            assert answer.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "unsafe-inline" not in policy
    assert not re.search(r"<script[^>]*>[^<]|<style| on[a-z]+=", text)


def test_a_client_that_has_the_current_description_is_answered_304(app: Flask) -> None:
    client = app.test_client()
    first = client.get("/v1/openapi.json")
    assert first.headers["Cache-Control"] == "no-cache"
    again = client.get("/v1/openapi.json", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
