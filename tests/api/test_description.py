"""The interface description says of everything what it is, and its limits are those of the service."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from migration_service.blueprints.description.error_catalogue import request_errors

#: The errors that the web server and Flask answer in place of any operation, and of those that take a body.
_OF_ALL = {"400", "404", "414", "431", "500"}
_WITH_BODY = {"411", "413", "415"}


def _operations(description: Any) -> list[Any]:
    return [it for item in description["paths"].values() for name, it in item.items() if name != "parameters"]


def _objects(value: Any, where: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each object of the description, except for examples: its place, its name, and itself."""
    for name, below in value.items() if isinstance(value, dict) else enumerate(value):
        if name not in ("example", "examples") and isinstance(below, dict | list):
            if isinstance(below, dict):
                yield where, str(name), below
            yield from _objects(below, f"{where}/{name}")


def _allows(schema: dict[str, Any], value: Any) -> bool:
    return Draft202012Validator(schema, validate_formats=True).is_valid(value)


def test_everything_has_a_sentence_for_people(description: Any) -> None:
    described = re.compile("/(properties|headers|parameters|responses|tags|servers|securitySchemes)")
    for where, name, it in _objects(description):
        # The properties of counts are states.
        if described.fullmatch(where[where.rfind("/") :]) and "$ref" not in it and not name.isupper():
            assert it.get("description"), f"{where}/{name}"
    for name in ("TokenRequest", "ServiceToken", "TokenAnswer", "GraphQLError"):
        assert description["components"]["schemas"][name]["description"]
    for operation in _operations(description):
        assert operation["summary"]
        assert operation["description"]
        for answer in operation["responses"].values():
            for media in answer.get("content", {}).values():
                assert media["schema"].get("type") != "string" or media["schema"]["description"]


def test_each_error_is_described_with_its_status_and_an_example(description: Any) -> None:
    statuses = {entry.code: entry.status for entry in request_errors()} | {"invalid": "400"}
    components = description["components"]["responses"]
    for operation in _operations(description):
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
    for operation in _operations(description):
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
    answers = [it["responses"][status] for it in _operations(description) if status in it["responses"]]
    assert answers
    assert all(set(it["headers"]) >= {"X-Request-ID"} | headers for it in answers)


def test_no_parameter_in_a_path_is_empty_and_an_id_is_a_uuid(description: Any) -> None:
    for item in description["paths"].values():
        for parameter in item.get("parameters", []):
            assert not _allows(parameter["schema"], "")
            is_id = parameter["name"].endswith("_id")
            assert (parameter["schema"] == {"type": "string", "format": "uuid"}) == is_id, parameter
