"""The Authorization header over HTTP, and every route of the interface tried by those who may not use it."""

import re
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.routing import Rule

from factories import Customer, make_customer, obtain
from migration_service.config import Settings
from migration_service.services.api_keys import revoke_api_key
from migration_service.services.tokens import obtain_tokens
from migration_service.tasks.accounts import perform_attempt
from migration_service.tasks.app import WorkerResources
from supplier_client import SupplierClient

#: Routes that need no token; a new one is to be thought about before it is added here.
OPEN = {
    "docs_assets.asset",
    "api-docs.openapi_json",
    "api-docs.openapi_swagger_ui",
    "graphql.obtain_token",
    "graphql.show_hint",
    "health.live",
    "health.ready",
}


def _guarded(app: Flask) -> list[tuple[Rule, str]]:
    return [
        (rule, method)
        for rule in app.url_map.iter_rules()
        if rule.endpoint not in OPEN
        for method in sorted((rule.methods or set()) - {"OPTIONS", "HEAD"})
    ]


def _open(client: FlaskClient, rule: Rule, method: str, account: tuple[str, str], authorization: Any) -> Any:
    """Call an operation for an account, with the example of its description for a body."""
    code, number = account
    values = {"import_supplier_code": code, "external_account_number": number}
    with client.application.test_request_context():
        # A route with other arguments: say here how another organisation would try it.
        path = client.application.url_map.bind("").build(
            rule.endpoint, {name: values[name] for name in rule.arguments}, method
        )
    headers = {"Authorization": authorization} if authorization is not None else {}
    description = client.get("/v1/openapi.json").json["paths"][_described(rule)][method.lower()]
    body = None
    if "requestBody" in description:
        example = description["requestBody"]["content"]["application/json"]["example"]
        naming = {"import_supplier", "import_supplier_code"} & set(example)
        body = example | dict.fromkeys(naming, code) | {"external_account_number": number}
    return client.open(path, method=method, headers=headers, json=body)


def _described(rule: Rule) -> str:
    """The path of a route in the description."""
    return re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)


def test_every_route_but_the_open_ones_refuses_whoever_has_no_valid_token(
    app: Flask,
    client: FlaskClient,
    customer: Customer,
    sessions: sessionmaker[Session],
    migrated: Settings,
) -> None:
    gone = make_customer(sessions)
    with sessions.begin() as session:
        valid = obtain_tokens(session, migrated, customer.api_key)
        over = replace(migrated, token_lifetime_seconds=0)
        expired = obtain_tokens(session, over, customer.api_key)
        revoked = obtain_tokens(session, migrated, gone.api_key)
        revoke_api_key(session, gone.prefix)
    attempts = {
        None: "not_authenticated",
        "Token": "not_authenticated",
        "Token nonsense": "authentication_failed",
        f"Token {valid.token}x": "authentication_failed",
        f"Token {valid.refresh_token}": "authentication_failed",
        f"Token {expired.token}": "authentication_failed",
        f"Token {revoked.token}": "authentication_failed",
        f"Token {customer.api_key}": "authentication_failed",
        f"Basic {valid.token}": "authentication_failed",
    }
    guarded = _guarded(app)
    assert guarded
    for rule, method in guarded:
        for authorization, code in attempts.items():
            response = _open(client, rule, method, (customer.import_supplier, "1"), authorization)
            assert (response.status_code, response.json["code"]) == (401, code), (rule, authorization)
            assert response.headers["WWW-Authenticate"] == "Token"
            assert set(response.json) == {"detail", "code", "errors"}


def test_every_route_hides_another_organisations_accounts(
    app: Flask, client: FlaskClient, token: str, supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    supplier.process(number)
    assert perform_attempt(worker_resources, supplier.current_attempt(number))
    hidden = {"import_supplier_not_found", "account_not_found"}
    for rule, method in _guarded(app):
        theirs = _open(client, rule, method, (supplier.code, number), f"Token {token}")
        assert theirs.status_code in (400, 404), rule
        assert theirs.json["code"] in hidden, rule
        none = _open(client, rule, method, ("NOBODY", number), f"Token {token}")
        assert theirs.data.replace(supplier.code.encode(), b"NOBODY") == none.data, rule
        mine = _open(client, rule, method, (supplier.code, number), f"Token {supplier.token}")
        assert not isinstance(mine.json, dict) or mine.json.get("code") not in hidden, rule


@pytest.mark.parametrize("form", ["{}", "Token {}", "token {}", "Bearer {}", "JWT {}", " Token  {} "])
def test_a_token_is_taken_in_every_form(
    client: FlaskClient, customer: Customer, token: str, form: str
) -> None:
    path = f"/v1/data-import/all-account-import-processes/{customer.import_supplier}/"
    response = client.get(path, headers={"Authorization": form.format(token)})
    assert (response.status_code, response.json) == (200, [])


def test_revoking_the_key_ends_a_token_between_two_requests(
    client: FlaskClient, customer: Customer, token: str, sessions: sessionmaker[Session]
) -> None:
    path = f"/v1/data-import/all-account-import-processes/{customer.import_supplier}/"
    headers = {"Authorization": f"Token {token}"}
    refresh_token = obtain(client, APIKey=customer.api_key)["refreshToken"]
    assert client.get(path, headers=headers).status_code == 200
    with sessions.begin() as session:
        revoke_api_key(session, customer.prefix)
    assert client.get(path, headers=headers).status_code == 401
    assert obtain(client, refreshToken=refresh_token)["errorCode"] == "authentication_failed"
    assert obtain(client, APIKey=customer.api_key)["errorCode"] == "authentication_failed"
