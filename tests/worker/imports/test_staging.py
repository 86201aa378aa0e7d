"""What staging stores, and how it is found again."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.schemas.json import encode_json
from migration_payloads.validation import validate_account
from migration_service.db.sql import OpenTransaction
from migration_service.models import AccountImportProcess
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.imports.status import find_process
from migration_service.states import ImportState
from support.batch_client import BatchClient
from support.factories import json_of
from support.supplier_client import SupplierClient

#: What differs between two rows whatever they hold. The hashes are those of a payload with its supplier.
_OF_THE_ROW = ("id", "import_supplier_id", "payload_sha256", "content_hash", "staged_at")


def test_an_account_is_found_by_its_supplier_and_number(supplier: SupplierClient) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    (account,) = supplier.accounts()
    for client in (supplier, other):
        assert client.stage(account | {"import_supplier": client.code}).status_code == 201
    with supplier.Session() as session:
        suppliers = [it.known().id for it in (supplier, other)]
        found = [find_process(session, it, account["external_account_number"]) for it in suppliers]
        assert [it.import_supplier_id for it in found if it] == suppliers
        assert find_process(session, suppliers[0], "nobody") is None


def test_a_replaced_payload_is_traced_to_the_request_that_replaced_it(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]

    def stage(
        payload: dict[str, Any], request_id: str, address: str
    ) -> tuple[datetime, int | None, str | None, str | None]:
        """Stage a payload, and return when, by whom, by which request and from where it was staged."""
        supplier.post(
            "/account-import-process/create-or-update/",
            payload,
            headers={"X-Request-ID": request_id},
            environ_overrides={"REMOTE_ADDR": address},
        )
        row = supplier.process_row(number)
        return row.staged_at, row.staged_by_api_key_id, row.staged_request_id, row.staged_address

    before, key, *first = stage(account, "first", "10.0.0.1")
    supplier.renew_key()
    after, other_key, *second = stage(account | {"billing_address1": "Elsewhere 1"}, "second", "10.0.0.2")
    assert (first, second) == (["first", "10.0.0.1"], ["second", "10.0.0.2"])
    assert after > before
    assert None not in (key, other_key)
    assert key != other_key


def test_an_account_is_staged_alone_as_among_others(supplier: SupplierClient) -> None:
    """One account is sent without arrays, by another statement."""
    account, companion, skipped = supplier.accounts(3)
    other = SupplierClient.create(supplier.app, supplier.Session)
    changed = account | {"billing_address1": 'It\'s \\ "1" å'}
    number = account["external_account_number"]

    def stage(session: Session, client: SupplierClient, *payloads: dict[str, Any]) -> tuple[object, ...]:
        """Stage the first of these payloads, and return what became of it and of its row."""
        accounts = [
            validate_account(payload | {"import_supplier": client.code}, Profile.LENIENT)
            for payload in payloads
        ]
        (staged, *_) = storing.stage(OpenTransaction.of(session), client.known(), accounts)
        hashed = func.jsonb_hash_extended(AccountImportProcess.payload, 0).label("hashed")
        row = session.execute(
            select(AccountImportProcess.__table__, hashed).where(client.process_of(number))
        ).mappings()
        found = dict(row.one())
        assert found.pop("hashed") == found["content_hash"]
        values = {name: value for name, value in found.items() if name not in _OF_THE_ROW}
        values["payload"] = values["payload"] | {"import_supplier": ""}
        return staged.first, staged.state, staged.id == 0, values

    with supplier.Session.begin() as session:
        for client in (supplier, other):
            skip_accounts(session, client.known().id, [skipped["external_account_number"]])
        seen = []
        for payload in (account, account, changed, skipped):
            alone = stage(session, supplier, payload)
            assert alone == stage(session, other, payload, companion)
            seen.append(alone[:3])
    assert seen == [
        (True, ImportState.PENDING, False),
        (False, ImportState.PENDING, False),
        (False, ImportState.PENDING, False),
        (False, ImportState.SKIPPED, True),
    ]


#: The lists whose order counts.
_ORDERED = {"customers", "supply_addresses", "ledgers", "line_items", "tax_items", "cost_details", "units"}


def _written_otherwise(value: Any, name: str = "") -> Any:
    """Return a payload that says the same: in another order, and with other numbers and texts."""
    if isinstance(value, dict):
        members = {it: _written_otherwise(below, it) for it, below in reversed(value.items())}
        return members | ({"landline": ""} if "family_name" in value and not value.get("landline") else {})
    if isinstance(value, list):
        items = [_written_otherwise(it) for it in value]
        return items if name in _ORDERED else items[::-1]
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return Decimal(f"{value:f}0" if "." in f"{value:f}" else f"{value}.0")
    return value


def test_a_payload_that_says_the_same_in_another_way_is_unchanged(batches: BatchClient) -> None:
    """Staged singly and in a batch, on another line of a file, and after the account was created."""
    supplier = batches.supplier
    account = next(it for it in supplier.accounts(50) if len(it["customers"]) == len(it["ledgers"]) == 1)
    text, other = encode_json(account), encode_json(_written_otherwise(account))
    number = account["external_account_number"]
    assert json_of(supplier.stage(account))["result"] == "STAGED"
    before = supplier.process_row(number)
    path = "/account-import-process/create-or-update/"
    answer = supplier.post(path, data=other, content_type="application/json")
    assert json_of(answer)["result"] == "UNCHANGED"
    assert batches.run([other], "stage")["staging_counts"] == {"UNCHANGED": 1}
    after = supplier.process_row(number)
    assert (after.staged_at, after.payload_sha256) == (before.staged_at, before.payload_sha256)
    twice = batches.results(batches.run([text, other], "stage")["batch_id"])
    assert [[it["code"] for it in line["errors"]] for line in twice] == [[], ["duplicate_line_in_batch"]]
    assert batches.run([other])["counts"]["IMPORTED"] == 1
    refused = supplier.post(path, data=other, content_type="application/json")
    assert [it["code"] for it in json_of(refused)["errors"]] == ["account_already_imported"]
    (line,) = batches.results(batches.run([other])["batch_id"])
    assert (line["status"], line["warnings"]) == ("ALREADY_IMPORTED", [])
    changed = json_of(supplier.stage(account | {"billing_address2": "other"}))
    found = [(it["code"], it["attr"]) for it in changed["errors"]]
    assert found == [("account_already_imported", None), ("payload_differs", "billing_address2")]
    assert supplier.reconcile()["differences"] == []
