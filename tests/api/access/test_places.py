"""The place of a request in its web process: taken, left, and refused in the form of the endpoint."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from flask.testing import FlaskClient
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from migration_payloads.files.ndjson import read_blocks
from migration_service.blueprints import (
    added_data,
    batch_upload,
    erasure,
    graphql,
    import_suppliers,
    status,
)
from migration_service.blueprints.requests.resources import resources
from migration_service.db.holding import Outage
from migration_service.errors import AccountNotStagedError, PaymentVendorUnavailableError, ShareUsedError
from migration_service.services.imports.status import read_imports
from migration_service.services.processing import dispatch
from migration_service.shares import Owner, Place, Places
from support.factories import Customer, json_of, obtain
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient

LIST = "/v1/data-import/import-suppliers/"


@pytest.fixture
def taken() -> Iterator[list[tuple[Owner, Place]]]:
    """The places that requests took, with their owners."""
    found: list[tuple[Owner, Place]] = []
    enter = Places.enter

    def note(self: Places, owner: Owner) -> Place:
        found.append((owner, place := enter(self, owner)))
        return place

    with patch.object(Places, "enter", note):
        yield found


@pytest.fixture
def note(taken: list[tuple[Owner, Place]]) -> Iterator[Callable[[Any], Callable[..., Any]]]:
    """Makes what answers this, or raises it, and notes that others may run meanwhile. It is asked once."""
    ran: list[bool] = []

    def note(answer: Any) -> Callable[..., Any]:
        def do(*_arguments: object) -> Any:
            ran.append(taken[-1][1].runs.is_set())
            if isinstance(answer, Exception):
                raise answer
            return answer

        return do

    yield note
    assert ran == [False]


def _headers(client: FlaskClient, customer: Customer) -> dict[str, str]:
    return {"Authorization": f"Token {obtain(client, APIKey=customer.api_key)['token']}"}


def test_a_request_has_a_place_of_its_organisation_or_its_address(
    client: FlaskClient, customer: Customer, taken: list[tuple[Owner, Place]]
) -> None:
    headers = _headers(client, customer)
    client.get(LIST, headers=headers)
    client.get(LIST)
    client.get("/health/live")
    here = f"address:{client.environ_base['REMOTE_ADDR']}"
    assert [owner for owner, _ in taken] == [here, customer.organisation_id, here]
    assert not any(place.runs.is_set() for _, place in taken), "all of them were left"


def test_whoever_has_used_its_share_is_refused_in_the_form_of_the_endpoint(
    client: FlaskClient, customer: Customer
) -> None:
    headers = _headers(client, customer)
    with patch.object(Places, "enter", side_effect=ShareUsedError):
        refused = client.get(LIST, headers=headers)
        of_token = client.post("/v1/graphql/", json={"query": "{ documentation }"})
        assert client.get("/health/live").status_code == 200
    assert (refused.status_code, json_of(refused)["code"]) == (429, "share_used")
    assert 3 <= int(refused.headers["Retry-After"]) <= 6
    assert (of_token.status_code, of_token.headers["Retry-After"]) == (429, "6")
    assert json_of(of_token)["errors"][0]["extensions"]["errorCode"] == "share_used"


@pytest.mark.parametrize("obtains_token", [False, True])
def test_a_request_that_waits_for_another_server_lets_others_run(
    client: FlaskClient, customer: Customer, note: Callable[[Any], Any], *, obtains_token: bool
) -> None:
    headers = _headers(client, customer)
    lost = OperationalError("SELECT", {}, psycopg.OperationalError("the connection is closed"))
    where = (graphql, "obtain_tokens") if obtains_token else (import_suppliers, "report_import_suppliers")
    with patch.object(Outage, "wait", note(False)), patch.object(*where, side_effect=lost):
        if obtains_token:
            assert obtain(client, APIKey=customer.api_key)["errorCode"] == "service_unavailable"
        else:
            assert client.get(LIST, headers=headers).status_code == 503


def test_a_request_that_waits_for_its_outcome_lets_others_run(
    supplier: SupplierClient, note: Callable[[Any], Any]
) -> None:
    (number,) = supplier.stage_new()
    with patch.object(dispatch, "wait_for_notification", note("A-12345678")):
        assert supplier.process(number, prefer="").status_code == 201


def test_a_request_that_waits_for_a_vendor_lets_others_run(
    account: ImportedAccount, note: Callable[[Any], Any]
) -> None:
    with (
        patch.object(added_data, "prepare_instruction", return_value=SimpleNamespace(exists=False)),
        patch.object(added_data, "ask_vendor", note(PaymentVendorUnavailableError())),
    ):
        body = {**account.pair, "vendor": "bank", "reference": "1", "type": "CARD"}
        assert account.supplier.post("/payment-instruction/create/", body).status_code == 500


def test_a_request_whose_file_comes_in_lets_others_run(
    supplier: SupplierClient, taken: list[tuple[Owner, Place]]
) -> None:
    ran: list[bool] = []

    def read(*arguments: Any) -> Any:
        for block in read_blocks(*arguments):
            ran.append(taken[-1][1].runs.is_set())
            yield block

    with patch.object(batch_upload, "read_blocks", read):
        answer = supplier.post(
            f"/batches/?import_supplier={supplier.code}&mode=validate",
            data=b"{}\n",
            headers={"Content-Type": "application/x-ndjson"},
        )
    assert answer.status_code == 202
    assert ran == [False]


def test_a_list_that_is_read_slowly_lets_others_run_between_two_pieces(
    supplier: SupplierClient, taken: list[tuple[Owner, Place]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "PIECE", 1)
    for account in supplier.accounts(3):
        supplier.stage(account)
    made: list[bool] = []
    read = read_imports

    def note(*arguments: Any, **options: Any) -> Any:
        made.append(taken[-1][1].runs.is_set())
        return read(*arguments, **options)

    monkeypatch.setattr(status, "read_imports", note)
    answer = supplier.get(f"/pending-account-import-processes/{supplier.code}/", buffered=False)
    (_, place) = taken[-1]
    read_meanwhile = [place.runs.is_set() for _ in answer.iter_encoded()]
    answer.close()
    assert made == [True] * 3
    assert not any(read_meanwhile)
    with supplier.app.app_context():
        places = resources().places
    place = places.enter(supplier.organisation_id())
    assert place.runs.is_set()
    places.leave(place)


def test_an_erasure_costs_what_the_database_searches_for_it(
    supplier: SupplierClient, taken: list[tuple[Owner, Place]]
) -> None:
    def search(session: Session, *_: Any, **__: Any) -> None:
        session.execute(text("SELECT pg_sleep(0.05)"))
        raise AccountNotStagedError

    with patch.object(erasure, "erase_account", search):
        body = {"import_supplier": supplier.code, "external_account_number": "1", "reason": "Asked."}
        assert supplier.post("/account-import-process/erase/", body).status_code == 400
    (_, place) = taken[-1]
    assert place.searched >= 0.05
