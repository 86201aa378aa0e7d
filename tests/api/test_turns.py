"""A request returns its turn: at its end, after a failure, and before it waits for a worker."""

from unittest.mock import patch

from flask import Flask
from flask.testing import FlaskClient

from migration_service.blueprints import account_imports
from migration_service.blueprints.turns import _TURNS, Turns
from supplier_client import SupplierClient


def _taken(app: Flask) -> int:
    turns: Turns = app.extensions[_TURNS]
    return turns._taken.total()


def test_no_turn_is_left_after_a_request_however_it_ended(app: Flask, supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    assert supplier.stage(account).status_code == 201
    assert supplier.stage({"import_supplier": supplier.code}).status_code == 400
    headers = {"Content-Type": "application/json"}
    assert supplier.post("/validate-account/", data=b"{", headers=headers).status_code == 400
    with patch.object(account_imports, "validate_payload", side_effect=RuntimeError("a fault")):
        assert supplier.stage(account).status_code == 500
    assert _taken(app) == 0


def test_a_body_without_a_token_has_a_turn_too(app: Flask, client: FlaskClient) -> None:
    seen, address = [], {"REMOTE_ADDR": "192.0.2.7"}
    with patch.object(Turns, "take", autospec=True, side_effect=lambda _self, owner: seen.append(owner)):
        client.post("/v1/graphql/", json={"query": "{ documentation }"}, environ_overrides=address)
    assert seen == ["192.0.2.7"]


def test_a_request_that_waits_for_a_worker_has_no_turn(app: Flask, supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    supplier.stage(account)
    seen = []

    def process(*_arguments: object, **_options: object) -> str:
        seen.append(_taken(app))
        return "A-1"

    with patch.object(account_imports, "process_account", side_effect=process):
        supplier.process(account["external_account_number"])
    assert seen == [0]
