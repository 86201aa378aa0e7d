"""Sections 4.4 to 4.7: status and lists; and one account as the service holds it."""

from base64 import urlsafe_b64encode
from datetime import datetime
from hashlib import sha256
from itertools import chain, product
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import pytest
from sqlalchemy import select

from migration_service.models import Account
from migration_service.services.accounts.erasure import erase_account
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import json_of
from support.imported_account import ImportedAccount, codes_of
from support.supplier_client import SupplierClient


def _list(supplier: SupplierClient, kind: str, query: str = "") -> Any:
    answer = supplier.get(f"/{kind}-account-import-processes/{supplier.code}/{query}")
    assert answer.status_code == 200
    return answer.json


@pytest.mark.parametrize(
    "number",
    [
        *("with space", "ümläut", "100%", "a?b#c", "..", "x" * 128, "a+b", "%2F"),
        *("a/b", "a//b", "77/", "77//", "/77", "/", "//"),
    ],
)
@pytest.mark.parametrize("end", ["/", ""])
def test_any_printable_number_works_in_every_path(supplier: SupplierClient, number: str, end: str) -> None:
    if number.endswith("/"):
        end = "/"  # tests/e2e/test_proxy.py
    (account,) = supplier.accounts()
    account["external_account_number"] = number
    assert supplier.stage(account).status_code == 201
    path = f"{supplier.code}/{quote(number, safe='')}{end}"
    answer = supplier.get(f"/account-transfer-status/{path}")
    assert answer.json == {"status": "UNKNOWN", "service_account_number": ""}
    assert json_of(supplier.get(f"/accounts/{path}"))["external_account_number"] == number
    assert supplier.get(f"/account-import-attempts/{path}").json == []


def test_the_status_is_that_of_the_account_and_not_of_its_neighbour_or_of_its_namesake(
    supplier: SupplierClient,
) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    account, neighbour = supplier.accounts(2)
    number = account["external_account_number"]
    supplier.stage(neighbour)
    other.stage(other.accounts()[0] | {"external_account_number": number})
    assert supplier.status(number).status_code == 404
    supplier.stage(account)
    supplier.process(number)
    assert supplier.status(number).json == {"status": "IN_PROGRESS", "service_account_number": ""}
    assert other.status(number).json == {"status": "UNKNOWN", "service_account_number": ""}
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, [neighbour["external_account_number"]])
    skipped = supplier.status(neighbour["external_account_number"])
    assert skipped.json == {"status": "UNKNOWN", "service_account_number": ""}


@pytest.mark.parametrize("number", ["a\0b", "a\nb", "", "   ", "x" * 129])
def test_a_number_that_is_not_printable_text_is_refused(supplier: SupplierClient, number: str) -> None:
    (account,) = supplier.accounts()
    account["external_account_number"] = number
    assert supplier.stage(account).status_code == 400


def test_a_list_has_the_accounts_of_its_supplier_in_the_order_of_their_numbers(
    supplier: SupplierClient,
) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    for client, numbers in ((supplier, ("3", "1", "2")), (other, ("0", "9"))):
        for account, number in zip(client.accounts(len(numbers)), numbers, strict=True):
            client.stage(account | {"external_account_number": number})
    for kind in ("all", "pending"):
        assert [it["external_account_number"] for it in _list(supplier, kind)] == ["1", "2", "3"]
        first = _list(supplier, kind, "?limit=1")
        assert [it["external_account_number"] for it in first] == ["1"]
        for query in ("", "?limit=1"):
            hidden = other.get(f"/{kind}-account-import-processes/{supplier.code}/{query}")
            assert (hidden.status_code, json_of(hidden)["code"]) == (404, "import_supplier_not_found")


def test_pages_lead_through_the_whole_list(supplier: SupplierClient) -> None:
    for account in supplier.accounts(7):
        supplier.stage(account)
    pages = supplier.pages(f"/all-account-import-processes/{supplier.code}/?limit=3")
    assert [len(page) for page in pages] == [3, 3, 1]
    assert list(chain.from_iterable(pages)) == _list(supplier, "all")


def test_a_cursor_outlives_its_account_and_one_that_no_list_has_given_is_refused(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    numbers = ["a", "b ü/", "c", "d"]
    for account, number in zip(supplier.accounts(4), numbers, strict=True):
        assert supplier.stage(account | {"external_account_number": number}).status_code == 201
    links = {}
    for kind in ("all", "pending"):
        link = supplier.get(f"/{kind}-account-import-processes/{supplier.code}/?limit=2").headers["Link"]
        links[kind] = link.partition("cursor=")[2].partition(">")[0]
    with supplier.Session.begin() as session:
        erase_account(session, supplier.known(), "b ü/", reason="Request 1")
    for kind, cursor in links.items():
        for query, rest in ((f"?limit=1&cursor={cursor}", ["c"]), (f"?cursor={cursor}", ["c", "d"])):
            assert [it["external_account_number"] for it in _list(supplier, kind, query)] == rest
    forged = urlsafe_b64encode(sha256(b"a\0").digest()[:6] + b"a\0").decode().rstrip("=")
    made_up = ["zzzz", "%F0%9F%98%80", "%ff", "MTAwMDAwMDM4", "a", f"{cursor}A", cursor[:-1], forged]
    for kind, query, value in product(("all", "pending", "imported", "failed"), ("", "limit=2&"), made_up):
        path = f"/{kind}-account-import-processes/{supplier.code}/?{query}cursor={value}"
        assert codes_of(supplier.get(path)) == [("cursor", "invalid")], path


def test_a_long_list_is_streamed_completely(supplier: SupplierClient) -> None:
    for account in supplier.accounts(5):
        supplier.stage(account)
    whole = _list(supplier, "all")
    assert len(whole) == 5
    for piece in (1, 2, 4, 5, 6):
        with patch("migration_service.blueprints.status.PIECE", piece):
            assert _list(supplier, "all") == whole


def test_a_list_has_every_number_as_it_was_sent_and_times_as_iso_8601(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    numbers = sorted(['quo"te', "back\\slash", "ümläut", "a,b", "{}", "\N{SNOWMAN}", "</script>"])
    for account, number in zip(supplier.accounts(len(numbers)), numbers, strict=True):
        assert supplier.stage(account | {"external_account_number": number}).status_code == 201
    supplier.process(numbers[0])
    perform_attempt(worker_resources.Session, supplier.current_attempt(numbers[0]))
    entries = _list(supplier, "all")
    assert [entry["external_account_number"] for entry in entries] == numbers
    with supplier.Session() as session:
        created_at = session.scalars(
            select(Account.created_at).where(Account.external_account_number == numbers[0])
        ).one()
    assert datetime.fromisoformat(entries[0]["account_created_at"]) == created_at.replace(microsecond=0)
    assert entries[0]["account_created_at"].endswith("Z")


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
