"""One account as the service holds it: staged, created, and added since."""

from typing import Any
from urllib.parse import quote

from migration_service.services.imports.skipping import skip_accounts
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import json_of
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient

EXTRACT = "2026-03-01T22:00:00Z"


def _get(supplier: SupplierClient, number: str) -> Any:
    return supplier.get(f"/accounts/{supplier.code}/{quote(number, safe='')}/")


def test_a_staged_account_has_its_payload_and_the_newer_version_that_was_refused(
    supplier: SupplierClient,
) -> None:
    payload = next(it for it in supplier.accounts(50) if it.get("customers") and it.get("ledgers"))
    number = payload["external_account_number"]
    validated = json_of(supplier.validate(payload))
    supplier.stage(payload, extracted_at=EXTRACT)
    supplier.stage(payload | {"customers": [payload["customers"][0] | {"mobile": "onbekend"}]})
    found = json_of(_get(supplier, number))
    assert (found["external_account_number"], found["status"], found["is_skipped"]) == (
        number,
        "UNKNOWN",
        False,
    )
    assert found["staged"]["payload"] == validated
    assert found["staged"]["extracted_at"] == EXTRACT
    newer = found["newer_version"]
    assert (newer["batch_id"], newer["line_number"]) == (None, None)
    assert [it["attr"] for it in newer["errors"]] == ["customers.0.mobile"]
    assert (found["created"], found["added"]) == (None, None)


def test_a_created_account_has_what_was_added_since_with_its_times(account: ImportedAccount) -> None:
    account.post_notes({"body": "Called.", "created_at": "2024-01-01T10:00:00Z"})
    added = {
        "transaction_id": "t1",
        "transaction_date": "2024-01-05",
        "amount": "12.50",
        "type": "PAYMENT",
        "payment_type": "DIRECT_DEBIT",
    }
    assert account.post_transactions(added).status_code == 201
    found = json_of(_get(account.supplier, account.number))
    assert found["status"] == "COMPLETED"
    assert found["created"]["service_account_number"].startswith("A-")
    assert found["staged"]["payload"]["billing_address1"] == "Singel 1"
    (note,) = found["added"]["notes"]
    assert (note["body"], note["created_at"]) == ("Called.", "2024-01-01T10:00:00Z")
    (transaction,) = found["added"]["transactions"]
    assert (transaction["transaction_id"], transaction["amount"]) == ("t1", 12.5)
    assert transaction["ledger_code"] == "ENERGY_LEDGER"
    assert note["added_at"]
    assert transaction["added_at"]
    assert (found["added"]["statements"], found["added"]["payment_instructions"]) == ([], [])


def test_of_an_erased_account_only_the_numbers_are_left(account: ImportedAccount) -> None:
    account.post_notes({"body": "Called."})
    account.supplier.post("/account-import-process/erase/", account.pair | {"reason": "Request 1"})
    found = json_of(_get(account.supplier, account.number))
    assert (found["staged"], found["newer_version"], found["added"]) == (None, None, None)
    assert found["created"]["erased_at"]
    assert found["created"]["service_account_number"].startswith("A-")


def test_a_skipped_account_says_so_and_a_mark_alone_is_no_account(supplier: SupplierClient) -> None:
    staged, other = supplier.accounts(2)
    supplier.stage(staged)
    numbers = [it["external_account_number"] for it in (staged, other)]
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, numbers)
    found = json_of(_get(supplier, numbers[0]))
    assert (found["status"], found["is_skipped"]) == ("UNKNOWN", True)
    assert (_get(supplier, numbers[1]).status_code, _get(supplier, "unknown").status_code) == (404, 404)


def test_a_line_that_was_refused_is_named_with_its_batch(
    account: ImportedAccount, worker_resources: WorkerResources
) -> None:
    batches = BatchClient(account.supplier, worker_resources)
    payload = json_of(_get(account.supplier, account.number))["staged"]["payload"]
    report = batches.run([payload | {"billing_address1": "Elsewhere 1"}])
    newer = json_of(_get(account.supplier, account.number))["newer_version"]
    assert (newer["batch_id"], newer["line_number"]) == (report["batch_id"], 1)
    assert [(it["code"], it["attr"]) for it in newer["errors"]] == [("payload_differs", "billing_address1")]
