"""`/v1/graphql/`: answers to clients with and without a key, and to invalid requests."""

import logging
from collections import Counter
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.exc import OperationalError

from migration_service.blueprints import graphql
from migration_service.metrics.process import SECURITY_EVENTS
from migration_service.services.access.throttle import MOST_FAILURES
from support.factories import OBTAIN, Customer, json_of, obtain


def _execute(client: FlaskClient, query: str, **variables: Any) -> Any:
    return client.post("/v1/graphql/", json={"query": query, "variables": variables})


def test_guesses_in_one_document_are_counted_separately(client: FlaskClient) -> None:
    guesses = " ".join(
        f'g{number}: obtainServiceToken(input: {{refreshToken: "x"}}) {{ token }}' for number in range(30)
    )
    before = _count_refused()
    response = _execute(client, f"mutation {{ {guesses} }}")
    assert response.status_code == 429
    codes = [error["extensions"]["errorCode"] for error in json_of(response)["errors"]]
    assert codes == ["authentication_failed"] * MOST_FAILURES + ["throttled"] * 20
    # Each is counted, so that guessing at one address alerts.
    assert _count_refused() - before == {"failed_login": MOST_FAILURES, "throttled_login": 20}


def _count_refused() -> Counter[str]:
    samples = [sample for metric in SECURITY_EVENTS.collect() for sample in metric.samples]
    return Counter({it.labels["event"]: int(it.value) for it in samples if it.name.endswith("_total")})


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (OperationalError("SELECT secret_column", {}, Exception("gone")), 503, "service_unavailable"),
        (RuntimeError("secret_column"), 500, "error"),
    ],
)
def test_an_internal_error_is_logged_and_not_shown(
    client: FlaskClient,
    customer: Customer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    fault: Exception,
    status: int,
    code: str,
) -> None:
    def fail(*_arguments: object) -> None:
        raise fault

    monkeypatch.setattr(graphql, "obtain_tokens", fail)
    response = _execute(client, OBTAIN, input={"APIKey": customer.api_key})
    assert response.status_code == status
    assert json_of(response)["errors"][0]["extensions"]["errorType"] == "APPLICATION"
    assert json_of(response)["errors"][0]["extensions"]["errorCode"] == code
    assert response.headers.get("Retry-After") == ("1" if status == 503 else None)
    assert "secret_column" not in response.text
    assert caplog.records
    assert customer.api_key not in caplog.text


_SECRET = "ami_secretpref_" + "S3cr3t" * 7 + "x"
_PARTS = ("secretpref", "S3cr3t")


def _document(argument: str) -> dict[str, Any]:
    return {"query": f"mutation {{ obtainServiceToken({argument}) {{ token }} }}"}


def _variables(given: Any, kind: str = "ObtainServiceTokenInput!") -> dict[str, Any]:
    query = f"mutation($input: {kind}) {{ obtainServiceToken(input: $input) {{ token }} }}"
    return {"query": query, "variables": {"input": given}}


@pytest.mark.parametrize(
    "body",
    [
        # A misspelt name, as a variable and as a literal.
        _variables({"apiKey": _SECRET}),
        _document(f'input: {{apiKey: "{_SECRET}"}}'),
        _document(f'apiKey: "{_SECRET}"'),
        _document(f'input: {{APIKey: "{_SECRET}", apiKey: "{_SECRET}"}}'),
        {"query": f'mutation {{ obtainToken(key: "{_SECRET}") {{ token }} }}'},
        # A value of the wrong type.
        _variables({"APIKey": [_SECRET]}),
        _variables(_SECRET),
        _variables(_SECRET, "String!"),
        _document(f"input: {{APIKey: {_SECRET}}}"),
        # A key instead of a name.
        {"query": f"mutation {{ {_SECRET} }}"},
        {"query": f"mutation($a: {_SECRET}) {{ obtainServiceToken(input: $a) {{ token }} }}"},
        {"query": f"mutation {{ obtainServiceToken(input: ${_SECRET}) {{ token }} }}"},
        {"query": f"mutation @{_SECRET} {{ obtainServiceToken {{ ...{_SECRET} }} }}"},
        {"query": "{ documentation }", "operationName": _SECRET},
        {"query": "{ documentation }", "variables": _SECRET},
        # A syntax error.
        {"query": _SECRET},
        {"query": f'"{_SECRET}"'},
        _document(f'input: {{APIKey: "{_SECRET}'),
        _document(f"input: {{APIKey: '{_SECRET}'}}"),
        _document(f'input: {{APIKey: "\\u{_SECRET}"}}'),
        # A well-formed request with a wrong key.
        _document(f'input: {{APIKey: "{_SECRET}"}}'),
        _document(f'input: {{refreshToken: "{_SECRET}"}}'),
        _variables({"APIKey": _SECRET, "refreshToken": _SECRET}),
    ],
)
def test_a_credential_is_neither_in_an_answer_nor_in_the_log(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, body: dict[str, Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    response = client.post("/v1/graphql/", json=body)
    assert json_of(response)["errors"]
    assert not [part for part in _PARTS if part in response.text or part in caplog.text]


def test_neither_a_key_nor_its_tokens_are_logged(
    client: FlaskClient, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = obtain(client, APIKey=customer.api_key)
    obtain(client, refreshToken=tokens["refreshToken"])
    for secret in (customer.api_key, tokens["token"], tokens["refreshToken"]):
        # The secret part of a key, and the signature of a token.
        assert secret[-40:] not in caplog.text
