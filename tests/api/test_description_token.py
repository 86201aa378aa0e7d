"""The description of how a token is obtained is as strict as the service."""

from copy import deepcopy
from typing import Any

import pytest
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator

from support.described import close
from support.factories import Customer, json_of

_PATH = "/v1/graphql/"
_QUERY = {"query": "{documentation}"}


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
