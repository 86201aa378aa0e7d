"""The interface description: complete, with examples that hold, and a page that needs no other host."""

import re
from typing import Any

import pytest
from flask import Flask

from migration_service.blueprints.error_catalogue import request_errors
from migration_service.blueprints.examples import ACCOUNT
from migration_service.rules.catalogue import check_account
from migration_service.schemas.account import load_account
from migration_service.schemas.json import encode_json, parse_json
from migration_service.states import Profile
from mutations import TODAY


@pytest.fixture(scope="session")
def description(app: Flask) -> Any:
    return app.test_client().get("/v1/openapi.json").json


def _operations(description: Any) -> list[tuple[str, str, Any]]:
    return [
        (path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if method in ("get", "post", "put", "delete", "patch")
    ]


def test_each_route_of_the_interface_is_described(app: Flask, description: Any) -> None:
    assert description["openapi"].startswith("3.1")
    routes = {
        re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for rule in app.url_map.iter_rules()
        if rule.rule.startswith("/v1/data-import/")
    }
    assert routes | {"/v1/graphql/"} == set(description["paths"])


def test_each_operation_has_a_summary_and_examples_of_its_errors(description: Any) -> None:
    documented = {entry.code for entry in request_errors()}
    for path, method, operation in _operations(description):
        assert operation["summary"], path
        errors = {status: answer for status, answer in operation["responses"].items() if int(status) >= 400}
        assert {"401", "503"} <= set(errors), (path, method)
        for answer in errors.values():
            examples = answer["content"]["application/json"]["examples"]
            for code, example in examples.items():
                assert example["value"]["code"] == code
                assert code in documented
                assert example["value"]["errors"]


def test_each_body_has_an_example(description: Any) -> None:
    for path, method, operation in _operations(description):
        if method == "post" and "requestBody" in operation:
            media = operation["requestBody"]["content"].values()
            assert any("example" in it or "examples" in it for it in media), path


def test_the_example_account_passes_every_rule() -> None:
    data, errors = load_account(parse_json(encode_json(ACCOUNT)))
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
    assert "default-src 'self'" in page.headers["Content-Security-Policy"]
