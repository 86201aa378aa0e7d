"""The description of how a token is obtained is as strict as the service."""

from copy import deepcopy
from typing import Any

import pytest
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator

from support.factories import Customer, json_of

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
