"""`/v1/graphql/`: answers to clients with and without a key, and to invalid requests."""

import gzip
import json
import logging
import time
from collections import Counter
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from graphql import get_introspection_query
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints import graphql_schema
from migration_service.metrics.process import SECURITY_EVENTS
from migration_service.services.access.throttle import MOST_FAILURES
from support.factories import OBTAIN, Customer, json_of, make_customer, obtain

WRONG = "ami_0000000000_" + "0" * 43


def _execute(client: FlaskClient, query: str, **variables: Any) -> Any:
    return client.post("/v1/graphql/", json={"query": query, "variables": variables})


@pytest.mark.parametrize("mutation", ["obtainServiceToken", "ObtainServiceToken"])
def test_an_api_key_is_exchanged_for_tokens(client: FlaskClient, customer: Customer, mutation: str) -> None:
    query = OBTAIN.replace("obtainServiceToken(", f"{mutation}(")
    response = _execute(client, query, input={"APIKey": customer.api_key})
    assert response.status_code == 200
    assert response.headers["Cache-Control"] == "no-store"
    assert set(response.json) == {"data"}
    tokens = json_of(response)["data"][mutation]
    assert set(tokens) == {"token", "refreshToken", "refreshExpiresIn", "payload"}
    assert tokens["refreshExpiresIn"] - time.time() == pytest.approx(7 * 24 * 3600, abs=10)
    assert tokens["payload"]["exp"] - tokens["payload"]["iat"] == pytest.approx(3600, abs=2)
    assert {"sub", "jti", "kind"} <= set(tokens["payload"])


def test_null_counts_as_absent(client: FlaskClient, customer: Customer) -> None:
    tokens = obtain(client, APIKey=customer.api_key, refreshToken=None)
    again = obtain(client, APIKey=None, refreshToken=tokens["refreshToken"])
    assert again["refreshExpiresIn"] == tokens["refreshExpiresIn"]
    assert again["token"] != tokens["token"]


def test_an_invalid_key_is_answered_with_a_graphql_error(client: FlaskClient) -> None:
    response = _execute(client, OBTAIN, input={"APIKey": WRONG})
    assert response.status_code == 200
    assert json_of(response)["data"] == {"obtainServiceToken": None}
    (error,) = json_of(response)["errors"]
    assert error["path"] == ["obtainServiceToken"]
    assert error["extensions"] == {
        "errorType": "AUTHENTICATION",
        "errorCode": "authentication_failed",
        "errorDescription": "The API key is not valid, or it was revoked.",
    }


@pytest.mark.parametrize("given", [{}, {"APIKey": None}, {"APIKey": WRONG, "refreshToken": "x"}])
def test_either_the_key_or_the_refresh_token_is_required(
    client: FlaskClient, given: dict[str, str | None]
) -> None:
    response = _execute(client, OBTAIN, input=given)
    assert response.status_code == 400
    extensions = json_of(response)["errors"][0]["extensions"]
    assert (extensions["errorType"], extensions["errorCode"]) == ("VALIDATION", "invalid")
    assert extensions["errorDescription"] == "Give either an APIKey or a refreshToken."


def test_after_ten_wrong_keys_with_its_prefix_an_address_has_to_wait_and_the_owner_does_not(
    app: Flask, customer: Customer
) -> None:
    guess = customer.prefix + "_" + "0" * 43
    stranger, owner = app.test_client(), app.test_client()
    stranger.environ_base["REMOTE_ADDR"] = "198.51.100.1"
    owner.environ_base["REMOTE_ADDR"] = "198.51.100.2"
    for _ in range(MOST_FAILURES):
        assert obtain(stranger, APIKey=guess)["errorCode"] == "authentication_failed"
    response = _execute(stranger, OBTAIN, input={"APIKey": customer.api_key})
    assert response.status_code == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert json_of(response)["errors"][0]["extensions"]["errorType"] == "THROTTLING"
    assert json_of(response)["errors"][0]["extensions"]["errorCode"] == "throttled"
    assert obtain(owner, APIKey=customer.api_key)["token"]


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

    monkeypatch.setattr(graphql_schema, "obtain_tokens", fail)
    response = _execute(client, OBTAIN, input={"APIKey": customer.api_key})
    assert response.status_code == status
    assert json_of(response)["errors"][0]["extensions"]["errorType"] == "APPLICATION"
    assert json_of(response)["errors"][0]["extensions"]["errorCode"] == code
    assert response.headers.get("Retry-After") == ("1" if status == 503 else None)
    assert "secret_column" not in response.text
    assert caplog.records
    assert customer.api_key not in caplog.text


NESTED = "{" + "a{" * 400
TYPES = "{__schema{types{" + "fields{type{" * 8 + "name" + "}}" * 8 + "}}}"
FRAGMENTS = "{...A} fragment A on Query {...A}"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "parse_error"),
        (b"\xff", 400, "parse_error"),
        (b"[" * 30_000, 400, "too_deep"),
        (b'{"query": 0E-999999}', 400, "number_too_long"),
        (b"[]", 400, "invalid"),
        (b"{}", 400, "invalid"),
        (b'{"query": 1}', 400, "invalid"),
        (b'{"query": "{documentation}", "variables": []}', 400, "invalid"),
        (b'{"query": "{documentation}", "operationName": 1}', 400, "invalid"),
        (b'{"query": "{documentation}", "operationName": "Other"}', 400, "invalid"),
        (b'{"query": ""}', 400, "parse_error"),
        (b'{"query": "{ documentation(x: \\"\\\\uD800\\") }"}', 400, "parse_error"),
        (b'{"query": "{nothing}"}', 400, "invalid"),
        (b'{"query": "mutation { obtainServiceToken { token } }"}', 400, "invalid"),
        (b'{"query": "mutation { obtainServiceToken(input: {APIKey: 1}) { token } }"}', 400, "invalid"),
        (json.dumps({"query": OBTAIN}).encode(), 400, "invalid"),
        (json.dumps({"query": OBTAIN, "variables": {"input": 1}}).encode(), 400, "invalid"),
        (json.dumps({"query": NESTED}).encode(), 400, "too_deep"),
        (json.dumps({"query": "{a(b:" + "[" * 480 + "]" * 480 + ")}"}).encode(), 400, "too_deep"),
        (json.dumps({"query": "{" + "a " * 1_001 + "}"}).encode(), 400, "document_too_long"),
        (json.dumps({"query": "#\n" * 101 + "{documentation}"}).encode(), 400, "document_too_long"),
        (json.dumps({"query": TYPES}).encode(), 400, "invalid"),
        (json.dumps({"query": FRAGMENTS}).encode(), 400, "invalid"),
        (b'{"query": "' + b" " * 65_536 + b'"}', 413, "request_too_large"),
    ],
)
def test_an_invalid_request_is_answered_with_a_graphql_error(
    client: FlaskClient, body: bytes, status: int, code: str
) -> None:
    response = client.post("/v1/graphql/", data=body, content_type="application/json")
    assert response.status_code == status, response.text
    assert response.content_type == "application/json"
    for error in json_of(response)["errors"]:
        assert error["message"] == error["extensions"]["errorDescription"]
        assert error["extensions"]["errorType"] == "VALIDATION"
    assert json_of(response)["errors"][0]["extensions"]["errorCode"] == code


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "br"}],
)
def test_a_body_of_another_content_type_is_refused(client: FlaskClient, headers: dict[str, str]) -> None:
    response = client.post("/v1/graphql/", data=gzip.compress(b"{}"), headers=headers)
    assert response.status_code == 415
    (error,) = json_of(response)["errors"]
    assert error["extensions"]["errorCode"] == "unsupported_media_type"
    assert error["message"].startswith("The body m")


def test_get_explains_the_endpoint_and_runs_no_mutation(client: FlaskClient) -> None:
    assert "obtainServiceToken" in json_of(client.get("/v1/graphql/"))["detail"]
    response = client.get("/v1/graphql/?query={documentation}")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert json_of(response)["errors"][0]["extensions"]["errorCode"] == "method_not_allowed"


def test_the_response_has_the_requested_content_type(client: FlaskClient) -> None:
    plain, graphql = "application/json", "application/graphql-response+json"
    for accepted, answered in (("*/*", plain), (f"{graphql}, {plain};q=0.9", graphql), ("text/html", plain)):
        response = client.post(
            "/v1/graphql/", json={"query": "{documentation}"}, headers={"Accept": accepted}
        )
        assert response.content_type == answered
        assert json_of(response)["data"] == {"documentation": "/v1/docs/"}


def test_tools_can_read_the_schema(client: FlaskClient) -> None:
    schema = json_of(_execute(client, get_introspection_query()))["data"]["__schema"]
    described = {kind["name"]: kind["description"] for kind in schema["types"]}
    assert described["ObtainServiceTokenInput"] == "Either an API key or a refresh token."


@pytest.mark.parametrize("given", [f'APIKey: "{WRONG}"', ""], ids=["refused", "invalid"])
def test_a_field_that_succeeds_is_returned_beside_the_error_of_another(
    client: FlaskClient, sessions: sessionmaker[Session], given: str
) -> None:
    key = make_customer(sessions).api_key
    response = _execute(
        client,
        f"mutation {{ a: obtainServiceToken(input: {{{given}}}) {{ token }} "
        f'b: obtainServiceToken(input: {{APIKey: "{key}"}}) {{ token }} }}',
    )
    assert response.status_code == 200
    assert json_of(response)["data"]["a"] is None
    assert json_of(response)["data"]["b"]["token"]
    assert [error["path"] for error in json_of(response)["errors"]] == [["a"]]


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
