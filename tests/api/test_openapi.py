"""The interface description is complete and as strict as the service."""

import re
from collections.abc import Iterator
from copy import deepcopy
from http import HTTPStatus
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator, meta

from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import check_account
from migration_payloads.schemas.account import load_account
from migration_payloads.schemas.json import encode_json, parse_json
from migration_service.blueprints.description import error_catalogue
from migration_service.blueprints.description.examples import ACCOUNT
from migration_service.blueprints.requests.errors import HTTP_CODES
from support.factories import Customer, json_of
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
    for entry in error_catalogue.request_errors():
        if entry.place != error_catalogue.Place.ANSWER:
            assert entry.code not in described, entry
        else:
            # The rest is answered before an operation is found, or whatever it is.
            assert entry.code in described | _BEFORE_AN_OPERATION, entry


_BEFORE_AN_OPERATION = {
    *HTTP_CODES.values(),
    *("error", "host_not_allowed", "invalid", "throttled", "too_many_sessions", "upload_storage_full"),
}


def test_an_operation_that_validates_names_every_code_of_a_value(description: Any) -> None:
    of_fields = {entry.code for entry in error_catalogue.field_errors()}
    of_accounts = of_fields | {entry.code for entry in error_catalogue.rule_errors()}
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


#: The errors that the web server and Flask answer in place of any operation, and of those that take a body.
_OF_ALL = {"400", "404", "414", "431", "500"}
_WITH_BODY = {"411", "413", "415"}


def _objects(value: Any, where: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each object of the description, except for examples: its place, its name, and itself."""
    for name, below in value.items() if isinstance(value, dict) else enumerate(value):
        if name not in ("example", "examples") and isinstance(below, dict | list):
            if isinstance(below, dict):
                yield where, str(name), below
            yield from _objects(below, f"{where}/{name}")


def test_everything_has_a_sentence_for_people(description: Any) -> None:
    described = re.compile("/(properties|headers|parameters|responses|tags|servers|securitySchemes)")
    for where, name, it in _objects(description):
        # The properties of counts are states.
        if described.fullmatch(where[where.rfind("/") :]) and "$ref" not in it and not name.isupper():
            assert it.get("description"), f"{where}/{name}"
    for name in ("TokenRequest", "ServiceToken", "TokenAnswer", "GraphQLError"):
        assert description["components"]["schemas"][name]["description"]
    for _, _, operation in _operations(description):
        assert operation["summary"]
        assert operation["description"]
        for answer in operation["responses"].values():
            for media in answer.get("content", {}).values():
                assert media["schema"].get("type") != "string" or media["schema"]["description"]


def test_each_error_is_described_with_its_status_and_an_example(description: Any) -> None:
    statuses = {entry.code: entry.status for entry in error_catalogue.request_errors()} | {"invalid": "400"}
    components = description["components"]["responses"]
    for _, _, operation in _operations(description):
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                answer = components[answer["$ref"].rpartition("/")[2]]  # noqa: PLW2901
                assert answer["description"].startswith(f"{HTTPStatus(int(status)).phrase}. ")
            assert "X-Request-ID" in answer["headers"]
            assert all(media["schema"] for media in answer.get("content", {}).values())
            if int(status) >= 400 and operation["operationId"] != "show_token_hint":
                codes = _codes_of(answer)
                assert codes, (operation["operationId"], status)
                assert all(status in statuses[code] for code in codes), (codes, status)


def _codes_of(answer: Any) -> set[str]:
    """Return the codes of the examples of an answer, each of which states its code once or twice."""
    codes = set()
    for media in answer["content"].values():
        for example in [it["value"] for it in media.get("examples", {}).values()] or [media["example"]]:
            (item,) = example["errors"][:1]
            codes |= {example["code"]} if "code" in example else {item["extensions"]["errorCode"]}
    return codes


def test_an_operation_has_the_errors_of_a_body_if_it_takes_one(description: Any) -> None:
    for _, _, operation in _operations(description):
        statuses = set(operation["responses"])
        assert statuses >= _OF_ALL
        if "requestBody" in operation:
            assert statuses >= _WITH_BODY, operation["operationId"]
        else:
            assert not statuses & _WITH_BODY, operation["operationId"]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        ("202", {"Location", "Retry-After"}),
        ("401", {"WWW-Authenticate"}),
        ("405", {"Allow"}),
        ("429", {"Retry-After"}),
        ("503", {"Retry-After"}),
    ],
)
def test_an_answer_says_where_or_how_or_when_to_go_on(
    description: Any, status: str, headers: set[str]
) -> None:
    answers = [it["responses"][status] for _, _, it in _operations(description) if status in it["responses"]]
    assert answers
    assert all(set(it["headers"]) >= {"X-Request-ID"} | headers for it in answers)


def test_no_parameter_in_a_path_is_empty_and_an_id_is_a_uuid(description: Any) -> None:
    for item in description["paths"].values():
        for parameter in item.get("parameters", []):
            assert not Draft202012Validator(parameter["schema"], validate_formats=True).is_valid("")
            is_id = parameter["name"].endswith("_id")
            assert (parameter["schema"] == {"type": "string", "format": "uuid"}) == is_id, parameter


_PATH = "/v1/graphql/"
_QUERY = {"query": "{documentation}"}


@pytest.fixture
def operation(description: Any) -> Any:
    return description["paths"][_PATH]["post"]


@pytest.mark.parametrize(
    "body",
    [
        _QUERY,
        {**_QUERY, "variables": None, "operationName": None},
        {**_QUERY, "variables": {"any": 1}},
        {},
        [],
        {"query": None},
        {"query": 1},
        {**_QUERY, "variables": []},
        {**_QUERY, "variables": "{}"},
        {**_QUERY, "operationName": 1},
    ],
)
def test_a_request_is_read_if_it_is_as_described(
    description: Any, operation: Any, client: FlaskClient, body: Any
) -> None:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    is_described = Draft202012Validator({**schema, "components": description["components"]}).is_valid(body)
    assert (client.post(_PATH, json=body).status_code == 200) == is_described


def test_the_examples_of_the_request_obtain_what_the_example_of_the_answer_shows(
    description: Any, operation: Any, client: FlaskClient, customer: Customer
) -> None:
    (query,) = description["components"]["schemas"]["TokenRequest"]["properties"]["query"]["examples"]
    example = deepcopy(operation["requestBody"]["content"]["application/json"]["example"])
    assert example["query"] == query
    assert operation["security"] == description["paths"][_PATH]["get"]["security"] == []
    example["variables"]["input"]["APIKey"] = customer.api_key
    found = json_of(client.post(_PATH, json=example))["data"]["obtainServiceToken"]
    for media in operation["responses"]["200"]["content"].values():
        assert set(found) == set(media["example"]["data"]["obtainServiceToken"])
