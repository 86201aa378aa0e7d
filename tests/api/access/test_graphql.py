"""`/v1/graphql/`: what it answers to those with a key, to those without, and to nonsense."""

import gzip
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from graphql import get_introspection_query
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from factories import OBTAIN, Customer, make_customer, obtain
from migration_service.blueprints import graphql, graphql_schema
from migration_service.blueprints.graphql import MAX_BODY_BYTES
from migration_service.connections import make_redis
from migration_service.services.access.throttle import MOST_FAILURES, Throttle

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
    tokens = response.json["data"][mutation]
    assert set(tokens) == {"token", "refreshToken", "refreshExpiresIn", "payload"}
    assert tokens["refreshExpiresIn"] - time.time() == pytest.approx(7 * 24 * 3600, abs=10)
    assert tokens["payload"]["exp"] - tokens["payload"]["iat"] == pytest.approx(3600, abs=2)
    assert {"sub", "jti", "kind"} <= set(tokens["payload"])


def test_the_key_may_stand_in_the_document(client: FlaskClient, customer: Customer) -> None:
    query = f'mutation {{ obtainServiceToken(input: {{APIKey: "{customer.api_key}"}}) {{ token }} }}'
    assert _execute(client, query).json["data"]["obtainServiceToken"]["token"]


def test_null_counts_as_not_given(client: FlaskClient, customer: Customer) -> None:
    tokens = obtain(client, APIKey=customer.api_key, refreshToken=None)
    again = obtain(client, APIKey=None, refreshToken=tokens["refreshToken"])
    assert again["refreshExpiresIn"] == tokens["refreshExpiresIn"]
    assert again["token"] != tokens["token"]


def test_a_key_that_does_not_hold_is_answered_in_graphqls_shape(client: FlaskClient) -> None:
    response = _execute(client, OBTAIN, input={"APIKey": WRONG})
    assert response.status_code == 200
    assert response.json["data"] == {"obtainServiceToken": None}
    (error,) = response.json["errors"]
    assert error["path"] == ["obtainServiceToken"]
    assert error["extensions"] == {
        "errorType": "AUTHENTICATION",
        "errorCode": "authentication_failed",
        "errorDescription": "The API key is not valid, or it was revoked.",
    }


@pytest.mark.parametrize("given", [{}, {"APIKey": None}, {"APIKey": WRONG, "refreshToken": "x"}])
def test_one_of_the_two_must_be_given(client: FlaskClient, given: dict[str, str | None]) -> None:
    response = _execute(client, OBTAIN, input=given)
    assert response.status_code == 400
    extensions = response.json["errors"][0]["extensions"]
    assert (extensions["errorType"], extensions["errorCode"]) == ("VALIDATION", "invalid")
    assert extensions["errorDescription"] == "Give either an APIKey or a refreshToken."


def test_an_access_token_does_not_refresh(client: FlaskClient, token: str) -> None:
    assert obtain(client, refreshToken=token)["errorCode"] == "authentication_failed"


def test_after_ten_wrong_keys_an_address_has_to_wait(app: Flask, customer: Customer) -> None:
    client = app.test_client()
    client.environ_base["REMOTE_ADDR"] = "192.0.2.1"
    for _ in range(MOST_FAILURES):
        assert obtain(client, APIKey=WRONG.replace("0000", customer.prefix[4:8]))["errorCode"] == (
            "authentication_failed"
        )
    response = _execute(client, OBTAIN, input={"APIKey": customer.api_key})
    assert response.status_code == 429
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert response.json["errors"][0]["extensions"]["errorType"] == "THROTTLING"
    assert response.json["errors"][0]["extensions"]["errorCode"] == "throttled"
    client.environ_base["REMOTE_ADDR"] = "192.0.2.2"
    assert obtain(client, APIKey=customer.api_key)["token"]


def test_guessing_one_key_from_many_addresses_is_throttled(app: Flask, customer: Customer) -> None:
    guess = customer.prefix + "_" + "0" * 43
    client = app.test_client()
    for number in range(MOST_FAILURES + 1):
        client.environ_base["REMOTE_ADDR"] = f"198.51.100.{number}"
        code = obtain(client, APIKey=guess)["errorCode"]
        assert code == ("authentication_failed" if number < MOST_FAILURES else "throttled")


def test_many_guesses_at_once_learn_no_more_than_ten(app: Flask) -> None:
    def guess(number: int) -> str:
        client = app.test_client()
        client.environ_base["REMOTE_ADDR"] = "203.0.113.5"
        return str(obtain(client, APIKey=f"ami_{number:010}_" + "0" * 43)["errorCode"])

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(guess, range(60)))
    assert answers.count("authentication_failed") == MOST_FAILURES
    assert answers.count("throttled") == 50


def test_many_guesses_in_one_document_are_counted_one_by_one(client: FlaskClient) -> None:
    guesses = " ".join(
        f'g{number}: obtainServiceToken(input: {{refreshToken: "x"}}) {{ token }}' for number in range(30)
    )
    response = _execute(client, f"mutation {{ {guesses} }}")
    assert response.status_code == 429
    codes = [error["extensions"]["errorCode"] for error in response.json["errors"]]
    assert codes == ["authentication_failed"] * MOST_FAILURES + ["throttled"] * 20


def test_obtaining_tokens_often_is_not_throttled(client: FlaskClient, customer: Customer) -> None:
    for _ in range(3 * MOST_FAILURES):
        assert obtain(client, APIKey=customer.api_key)["token"]


def test_tokens_are_obtained_while_redis_is_away(
    app: Flask, client: FlaskClient, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = make_redis("redis://127.0.0.1:1/0")
    shared = replace(app.extensions["migration_service"], throttle=Throttle(redis))
    monkeypatch.setitem(app.extensions, "migration_service", shared)
    assert obtain(client, APIKey=customer.api_key)["token"]
    for _ in range(MOST_FAILURES):
        assert obtain(client, APIKey=WRONG)["errorCode"] == "authentication_failed"
    assert obtain(client, APIKey=WRONG)["errorCode"] == "throttled"
    redis.connection_pool.disconnect()


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (OperationalError("SELECT secret_column", {}, Exception("gone")), 503, "service_unavailable"),
        (RuntimeError("secret_column"), 500, "error"),
    ],
)
def test_a_fault_inside_is_logged_and_not_shown(
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
    assert response.json["errors"][0]["extensions"]["errorType"] == "APPLICATION"
    assert response.json["errors"][0]["extensions"]["errorCode"] == code
    assert "secret_column" not in response.text
    assert caplog.records
    assert customer.api_key not in caplog.text


def test_nothing_of_a_key_or_token_is_logged(
    client: FlaskClient, customer: Customer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = obtain(client, APIKey=customer.api_key)
    obtain(client, APIKey=WRONG)
    obtain(client, refreshToken=tokens["refreshToken"])
    _execute(client, OBTAIN, input={"key": customer.api_key})
    _execute(client, OBTAIN, input=customer.api_key)
    _execute(client, f'mutation {{ obtainServiceToken(input: "{customer.api_key}") {{ token }} }}')
    _execute(client, f'mutation {{ "{customer.api_key}" }}')
    for secret in (customer.api_key, WRONG, tokens["token"], tokens["refreshToken"]):
        assert secret.rpartition("_")[2].rpartition(".")[2] not in caplog.text


NESTED = "{" + "a{" * 400
TYPES = "{__schema{types{" + "fields{type{" * 8 + "name" + "}}" * 8 + "}}}"
FRAGMENTS = "{...A} fragment A on Query {...A}"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 411, "length_required"),
        (b"x", 400, "parse_error"),
        (b"\xff", 400, "parse_error"),
        (b"[" * 30_000, 400, "parse_error"),
        (b"[]", 400, "invalid"),
        (b"1", 400, "invalid"),
        (b"null", 400, "invalid"),
        (b"{}", 400, "invalid"),
        (b'{"query": null}', 400, "invalid"),
        (b'{"query": 1}', 400, "invalid"),
        (b'{"query": "{documentation}", "variables": []}', 400, "invalid"),
        (b'{"query": "{documentation}", "variables": "{}"}', 400, "invalid"),
        (b'{"query": "{documentation}", "operationName": 1}', 400, "invalid"),
        (b'{"query": "{documentation}", "operationName": "Other"}', 400, "invalid"),
        (b'{"query": ""}', 400, "parse_error"),
        (b'{"query": "{"}', 400, "parse_error"),
        (b'{"query": "{ documentation(x: \\"\\\\uD800\\") }"}', 400, "parse_error"),
        (b'{"query": "{nothing}"}', 400, "invalid"),
        (b'{"query": "subscription {x}"}', 400, "invalid"),
        (b'{"query": "mutation { obtainServiceToken { token } }"}', 400, "invalid"),
        (b'{"query": "mutation { obtainServiceToken(input: {APIKey: 1}) { token } }"}', 400, "invalid"),
        (json.dumps({"query": OBTAIN}).encode(), 400, "invalid"),
        (json.dumps({"query": OBTAIN, "variables": {"input": 1}}).encode(), 400, "invalid"),
        (json.dumps({"query": OBTAIN, "variables": {"input": {"APIKey": 1.5}}}).encode(), 400, "invalid"),
        (json.dumps({"query": OBTAIN, "variables": {"input": {"key": "x"}}}).encode(), 400, "invalid"),
        (json.dumps({"query": NESTED}).encode(), 400, "parse_error"),
        (json.dumps({"query": "{a" * 300 + "}" * 300}).encode(), 400, "parse_error"),
        (json.dumps({"query": "{a(b:" + "[" * 480 + "]" * 480 + ")}"}).encode(), 400, "parse_error"),
        (json.dumps({"query": "{" * 20_000}).encode(), 400, "parse_error"),
        (json.dumps({"query": "#\n" * 20_000 + "{documentation}"}).encode(), 400, "parse_error"),
        (json.dumps({"query": TYPES}).encode(), 400, "invalid"),
        (json.dumps({"query": FRAGMENTS}).encode(), 400, "invalid"),
        (b'{"query": "' + b" " * MAX_BODY_BYTES + b'"}', 413, "request_too_large"),
    ],
)
def test_nonsense_is_answered_in_graphqls_shape(
    client: FlaskClient, body: bytes, status: int, code: str
) -> None:
    response = client.post("/v1/graphql/", data=body, content_type="application/json")
    assert response.status_code == status, response.text
    assert response.content_type == "application/json"
    for error in response.json["errors"]:
        assert error["message"] == error["extensions"]["errorDescription"]
        assert error["extensions"]["errorType"] == "VALIDATION"
    assert response.json["errors"][0]["extensions"]["errorCode"] == code


@pytest.mark.parametrize("depth", range(2, 240, 7))
def test_nesting_is_refused_at_any_depth(client: FlaskClient, depth: int) -> None:
    fields = "{__typename" + "{a" * depth + "}" * depth + "}"
    values = "{documentation(a:" + "[" * depth + "]" * depth + ")}"
    for query in (fields, values):
        assert _execute(client, query).status_code == 400


def test_more_recursion_than_python_allows_is_the_clients_error(
    client: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recurse(*_arguments: object, **_options: object) -> None:
        raise RecursionError

    monkeypatch.setattr(graphql, "validate", recurse)
    response = _execute(client, "{documentation}")
    assert response.status_code == 400
    assert response.json["errors"][0]["message"] == "The GraphQL document nests too deep."


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "br"}],
)
def test_another_kind_of_body_is_refused(client: FlaskClient, headers: dict[str, str]) -> None:
    response = client.post("/v1/graphql/", data=gzip.compress(b"{}"), headers=headers)
    assert response.status_code == 415
    assert response.json["errors"][0]["extensions"]["errorCode"] == "unsupported_media_type"


def test_get_shows_how_it_is_used_and_carries_nothing_out(client: FlaskClient) -> None:
    assert "obtainServiceToken" in client.get("/v1/graphql/").json["detail"]
    response = client.get("/v1/graphql/?query={documentation}")
    assert (response.status_code, response.headers["Allow"]) == (405, "POST")
    assert response.json["errors"][0]["extensions"]["errorCode"] == "method_not_allowed"


@pytest.mark.parametrize(
    ("accepted", "answered"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("application/graphql-response+json", "application/graphql-response+json"),
        ("application/graphql-response+json, application/json;q=0.9", "application/graphql-response+json"),
        ("text/html", "application/json"),
    ],
)
def test_the_answer_has_the_type_that_is_asked_for(client: FlaskClient, accepted: str, answered: str) -> None:
    response = client.post("/v1/graphql/", json={"query": "{documentation}"}, headers={"Accept": accepted})
    assert response.content_type == answered
    assert response.json["data"] == {"documentation": "/v1/docs/"}


def test_it_works_without_the_slash_at_the_end(client: FlaskClient) -> None:
    assert client.post("/v1/graphql", json={"query": "{documentation}"}).status_code == 200


def test_tools_can_read_the_schema(client: FlaskClient) -> None:
    schema = _execute(client, get_introspection_query()).json["data"]["__schema"]
    described = {kind["name"]: kind["description"] for kind in schema["types"]}
    assert described["ObtainServiceTokenInput"] == "Either an API key or a refresh token."


def test_a_part_that_succeeds_is_given_beside_one_that_fails(
    client: FlaskClient, sessions: sessionmaker[Session]
) -> None:
    key = make_customer(sessions).api_key
    response = _execute(
        client,
        f'mutation {{ a: obtainServiceToken(input: {{APIKey: "{WRONG}"}}) {{ token }} '
        f'b: obtainServiceToken(input: {{APIKey: "{key}"}}) {{ token }} }}',
    )
    assert response.status_code == 200
    assert response.json["data"]["a"] is None
    assert response.json["data"]["b"]["token"]
    assert [error["path"] for error in response.json["errors"]] == [["a"]]
