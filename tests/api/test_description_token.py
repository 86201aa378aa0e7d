"""The description of how a token is obtained is as strict as the service."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator

from support.described import close
from support.factories import Customer, json_of

_PATH = "/v1/graphql/"
_QUERY = {"query": "{documentation}"}
_ALL_FIELDS = "token refreshToken refreshExpiresIn payload"
#: Members that may have any value, or any members.
_OPEN = ("payload", "locations")
_REQUIRED = ("message", "extensions", "errorType", "errorCode", "errorDescription")


@pytest.fixture
def operation(description: Any) -> Any:
    return description["paths"][_PATH]["post"]


def _validator(description: Any, schema: Any) -> Draft202012Validator:
    return Draft202012Validator(close({**schema, "components": description["components"]}))


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


def test_a_request_without_a_body_is_refused(operation: Any, client: FlaskClient) -> None:
    assert operation["requestBody"]["required"]
    assert client.post(_PATH).status_code == 411


def test_the_examples_of_the_request_obtain_what_the_example_of_the_answer_shows(
    description: Any, operation: Any, client: FlaskClient, customer: Customer
) -> None:
    (query,) = description["components"]["schemas"]["TokenRequest"]["properties"]["query"]["examples"]
    example = deepcopy(operation["requestBody"]["content"]["application/json"]["example"])
    assert example["query"] == query
    example["variables"]["input"]["APIKey"] = customer.api_key
    found = json_of(client.post(_PATH, json=example))["data"]["obtainServiceToken"]
    for media in operation["responses"]["200"]["content"].values():
        assert set(found) == set(media["example"]["data"]["obtainServiceToken"])


def test_no_other_answer_than_a_real_one_is_as_described(
    description: Any, operation: Any, client: FlaskClient, customer: Customer
) -> None:
    tokens, refused = _answers(client, customer)
    for media in operation["responses"]["200"]["content"].values():
        validator = _validator(description, media["schema"])
        for answer in (tokens, refused):
            validator.validate(answer)
            for damaged in _damaged(answer):
                assert not validator.is_valid(damaged), damaged


def _answers(client: FlaskClient, customer: Customer) -> Iterator[Any]:
    """Return an answer with tokens, and one in which a field is refused and one has another name."""
    key = f'APIKey: "{customer.api_key}"'
    for document in (
        f"{{ obtainServiceToken(input: {{{key}}}) {{ {_ALL_FIELDS} }} }}",
        f'{{ obtainServiceToken(input: {{APIKey: "x"}}) {{ token }} '
        f"second: obtainServiceToken(input: {{{key}}}) {{ {_ALL_FIELDS} }} }}",
    ):
        yield json_of(client.post(_PATH, json={"query": f"mutation {document}"}))


def _damaged(value: Any) -> Iterator[Any]:
    """Yield what the value would be with one part of another kind, or without a member that is required."""
    yield {"another": "kind"} if not isinstance(value, dict) else "another kind"
    parts = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for name, below in parts:
        for damaged in ["another kind"] if name in _OPEN else _damaged(below):
            # The description cannot know the names that a document chooses.
            if name != "second":
                yield _replace(value, name, damaged)
        if name in _REQUIRED:
            yield {key: it for key, it in value.items() if key != name}
        if name == "errorType":
            yield {**value, name: "ANOTHER"}


def _replace(value: Any, name: Any, part: Any) -> Any:
    if isinstance(value, dict):
        return {**value, name: part}
    return [*value[:name], part, *value[name + 1 :]]


def test_each_failure_of_graphql_has_its_form(operation: Any) -> None:
    forms = {
        status: str(answer["content"])
        for status, answer in operation["responses"].items()
        if "application/graphql-response+json" in answer.get("content", {})
    }
    assert [*forms] == ["200", "400", "403", "408", "411", "413", "415", "429", "500", "503"]
    assert all("schemas/TokenAnswer" in form for form in forms.values())
    for status in [*forms][1:]:
        answer = operation["responses"][status]
        (error,) = answer["content"]["application/graphql-response+json"]["example"]["errors"]
        assert error.keys() == {"message", "extensions"}
        assert error["extensions"].keys() == {"errorType", "errorCode", "errorDescription"}
        assert error["message"] == error["extensions"]["errorDescription"] == answer["description"]
    # What is refused before GraphQL begins, for its Host header or as the database is unavailable.
    assert [status for status, form in forms.items() if "schemas/ErrorBody" in form] == ["400", "503"]


def test_the_hint_is_described(description: Any, client: FlaskClient) -> None:
    hint = description["paths"][_PATH]["get"]
    responses, (parameter,) = hint["responses"], hint["parameters"]
    parameter = {name: parameter[name] for name in ("in", "name", "schema")}
    assert parameter == {"in": "query", "name": "query", "schema": {"type": "string"}}
    assert hint["security"] == description["paths"][_PATH]["post"]["security"] == []
    for path, status in ((_PATH, "200"), (f"{_PATH}?query={{documentation}}", "405")):
        answer = client.get(path)
        assert answer.status_code == int(status)
        for media in responses[status]["content"].values():
            validator = _validator(description, media["schema"])
            validator.validate(answer.json)
            assert not validator.is_valid([])
        assert set(responses[status]["content"]) == {"application/json", "application/graphql-response+json"}
    assert not _validator(description, responses["200"]["content"]["application/json"]["schema"]).is_valid({})
