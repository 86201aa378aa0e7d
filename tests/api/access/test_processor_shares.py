"""Who has used up its share of a web process is refused, with the code and the form of the endpoint."""

import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from factories import Customer, MakeClient, json_of, obtain
from imported_account import ImportedAccount
from migration_service.blueprints import added_data, batch_upload
from migration_service.blueprints.resources import resources
from migration_service.config import Settings
from migration_service.errors import PaymentVendorUnavailableError
from migration_service.services.access import processor_shares
from migration_service.services.access.places import Place, Places
from migration_service.services.access.processor_shares import Owner, ProcessorShares
from migration_service.services.batches.ndjson import read_blocks
from migration_service.services.processing import dispatch
from migration_service.tasks.resources import WorkerResources
from supplier_client import SupplierClient

LIST = "/v1/data-import/import-suppliers/"
HERE = "address:127.0.0.1"


@pytest.fixture
def client(make_client: MakeClient, migrated: Settings) -> FlaskClient:
    return make_client(replace(migrated, processor_share=25))


def _shares(client: FlaskClient) -> ProcessorShares:
    with client.application.app_context():
        return resources().processor_shares


def _use_up(client: FlaskClient, owner: Owner, beside: Owner) -> None:
    """Let one owner have used far too much, while another one has used something."""
    shares = _shares(client)
    shares._sleep = lambda _seconds: None
    shares.charge(beside, 1.0)
    shares.charge(owner, 100.0, in_advance=0.001)


def _headers(client: FlaskClient, customer: Customer) -> dict[str, str]:
    return {"Authorization": f"Token {obtain(client, APIKey=customer.api_key)['token']}"}


def test_an_organisation_that_has_used_its_share_is_refused_and_the_other_one_is_not(
    client: FlaskClient, customer: Customer, other: Customer
) -> None:
    hostile, quiet = _headers(client, customer), _headers(client, other)
    _use_up(client, customer.organisation_id, beside=other.organisation_id)
    refused = client.get(LIST, headers=hostile)
    assert (refused.status_code, json_of(refused)["code"]) == (429, "processor_share_used")
    assert 3 <= int(refused.headers["Retry-After"]) <= 6
    assert client.get(LIST, headers=quiet).status_code == 200


def test_alone_it_gets_everything(client: FlaskClient, customer: Customer) -> None:
    headers = _headers(client, customer)
    _use_up(client, customer.organisation_id, beside=HERE)
    assert client.get(LIST, headers=headers).status_code == 200


def test_an_address_without_a_token_is_refused_in_the_form_of_the_endpoint(
    client: FlaskClient, customer: Customer
) -> None:
    _use_up(client, HERE, beside=customer.organisation_id)
    refused = client.post("/v1/graphql/", json={"query": "{ documentation }"})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "6")
    assert json_of(refused)["errors"][0]["extensions"]["errorCode"] == "processor_share_used"
    assert client.get(LIST).status_code == 429
    assert client.get("/health/live").status_code == 200


def test_what_a_request_costs_is_charged_to_its_organisation_or_to_its_address(
    client: FlaskClient, customer: Customer
) -> None:
    charged: list[tuple[Owner, float]] = []
    headers = _headers(client, customer)

    def charge(_shares: ProcessorShares, owner: Owner, seconds: float, in_advance: float) -> None:
        # What was charged in advance is taken off.
        charged.append((owner, in_advance))
        assert 0 <= seconds < time.thread_time()

    with (
        patch.object(processor_shares.ProcessorShares, "enter", return_value=0.25),
        patch.object(processor_shares.ProcessorShares, "charge", charge),
    ):
        client.get(LIST, headers=headers).close()
        client.get(LIST).close()
        client.get("/health/live").close()
    assert charged == [(customer.organisation_id, 0.25), (HERE, 0.25), (HERE, 0.0)]


@pytest.fixture
def places() -> Iterator[list[Places]]:
    """The places of each application that a request took one of."""
    taken: list[Places] = []
    take = Places.take

    def note(self: Places, owner: Owner) -> Place:
        taken.append(self)
        return take(self, owner)

    with patch.object(Places, "take", note):
        yield taken


def test_beside_another_organisation_a_request_has_a_place_until_it_ends(
    client: FlaskClient, customer: Customer, other: Customer, places: list[Places]
) -> None:
    headers = _headers(client, customer)
    places.clear()
    client.get(LIST, headers=headers).close()
    assert not places, "alone it needs none"
    _shares(client).charge(other.organisation_id, 1.0)
    answer = client.get(LIST, headers=headers, buffered=False)
    assert [len(it._owners) for it in places] == [1]
    answer.close()
    assert places[0]._owners == {}


@pytest.fixture
def supplier(client: FlaskClient, other: Customer, sessions: sessionmaker[Session]) -> SupplierClient:
    """A supplier beside an organisation that sends requests, too."""
    supplier = SupplierClient.create(client.application, sessions)
    _shares(client).charge(other.organisation_id, 1.0)
    return supplier


def test_a_request_that_waits_for_its_outcome_has_no_place(
    supplier: SupplierClient, places: list[Places]
) -> None:
    (account,) = supplier.accounts()
    with supplier.stage(account) as staged:
        assert staged.status_code == 201
    held: list[int] = []

    def wait(*_arguments: object) -> str:
        held.append(len(places[-1]._owners))
        return "A-12345678"

    with patch.object(dispatch, "wait_for_notification", wait):
        assert supplier.process(account["external_account_number"], prefer="").status_code == 201
    assert held == [0]


def test_a_request_that_waits_for_a_vendor_has_no_place(
    supplier: SupplierClient, places: list[Places], worker_resources: WorkerResources
) -> None:
    account = ImportedAccount.create(supplier, worker_resources)
    held: list[int] = []

    def ask(_order: object) -> None:
        held.append(len(places[-1]._owners))
        raise PaymentVendorUnavailableError

    with (
        patch.object(added_data, "prepare_instruction", return_value=SimpleNamespace(exists=False)),
        patch.object(added_data, "ask_vendor", ask),
    ):
        body = {**account.pair, "vendor": "bank", "reference": "1", "type": "CARD"}
        assert supplier.post("/payment-instruction/create/", body).status_code == 500
    assert held == [0]


def test_a_request_whose_file_comes_in_has_no_place(supplier: SupplierClient, places: list[Places]) -> None:
    held: list[int] = []

    def read(*arguments: Any) -> Any:
        for block in read_blocks(*arguments):
            held.append(len(places[-1]._owners))
            yield block

    with patch.object(batch_upload, "read_blocks", read):
        answer = supplier.post(
            f"/batches/?import_supplier={supplier.code}&mode=validate",
            data=b"{}\n",
            headers={"Content-Type": "application/x-ndjson"},
        )
    assert answer.status_code == 202
    assert held == [0]
