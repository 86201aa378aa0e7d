"""Attempts, failed imports and suppliers over HTTP, and the comparison of two batches."""

import csv
import io
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import msgspec
import pytest
from sqlalchemy import update

from migration_service.db.sql import OpenTransaction
from migration_service.errors import AccountFailedValidationError, ErrorItem
from migration_service.models import AccountImportProcess, Batch
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.processing.attempts import withdraw_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import json_of
from support.imported_account import codes_of
from support.supplier_client import SupplierClient

_ERROR = AccountFailedValidationError(errors=[ErrorItem("a_rule", "Too old.", "customers.0")])


def _attempt(supplier: SupplierClient, number: str, resources: WorkerResources, **fields: Any) -> str:
    assert supplier.process(number, **fields).status_code == 202
    return supplier.work(resources, number)


def _fail(supplier: SupplierClient, number: str, resources: WorkerResources) -> str:
    """Make an attempt that fails, because its payload is refused when it is validated again."""
    with (
        patch("migration_service.services.processing.attempts.RULES_VERSION", "newer"),
        patch("migration_service.services.processing.attempts.validate_account") as validate,
    ):
        validate.return_value.raise_errors.side_effect = _ERROR
        return _attempt(supplier, number, resources)


def _withdraw(supplier: SupplierClient, number: str, resources: WorkerResources) -> str:
    assert supplier.process(number).status_code == 202
    attempt_id = supplier.current_attempt(number)
    with supplier.Session.begin() as session:
        assert withdraw_attempt(OpenTransaction.of(session), attempt_id)
    resources.slots.release([str(attempt_id)])
    return str(attempt_id)


def _get(supplier: SupplierClient, path: str) -> Any:
    answer = supplier.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_an_attempt_is_in_progress_until_it_has_an_outcome(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (number,) = supplier.stage_new()
    supplier.process(number)
    attempt_id = supplier.current_attempt(number)
    path = f"/account-import-attempts/{attempt_id}/"
    running = _get(supplier, path)
    assert running.pop("created_at").endswith("Z")
    assert running == {
        "attempt_id": str(attempt_id),
        "import_supplier": supplier.code,
        "external_account_number": number,
        "dry_run": False,
        "state": "IN_PROGRESS",
        "outcome": None,
        "service_account_number": None,
        "error": None,
        "finished_at": None,
    }
    perform_attempt(worker_resources.Session, attempt_id)
    done = _get(supplier, path)
    assert (done["state"], done["outcome"], done["error"]) == ("FINISHED", "SUCCEEDED", None)
    assert done["service_account_number"] == supplier.status(number).json["service_account_number"]  # type: ignore[index]
    assert done["finished_at"] >= done["created_at"]


def test_a_dry_run_and_a_failure_have_the_error_that_a_waiting_request_gets(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (number,) = supplier.stage_new()
    dry_run = _get(
        supplier, f"/account-import-attempts/{_attempt(supplier, number, worker_resources, dry_run=True)}/"
    )
    assert (dry_run["dry_run"], dry_run["outcome"]) == (True, "DRY_RUN_SUCCEEDED")
    detail = "Account would successfully import. Rolled back due to Dry Run."
    item = {"detail": detail, "code": "dry_run_succeeded", "attr": None}
    assert dry_run["error"] == {"detail": detail, "code": "dry_run_succeeded", "errors": [item]}

    failed = _get(supplier, f"/account-import-attempts/{_fail(supplier, number, worker_resources)}/")
    assert failed["outcome"] == "FAILED"
    assert failed["error"]["code"] == "account_failed_validation"
    assert failed["error"]["errors"] == [{"detail": "Too old.", "code": "a_rule", "attr": "customers.0"}]

    withdrawn = _get(supplier, f"/account-import-attempts/{_withdraw(supplier, number, worker_resources)}/")
    assert (withdrawn["outcome"], withdrawn["error"]["code"]) == ("WITHDRAWN", "no_worker_available")


def test_the_attempts_of_an_account_are_listed_newest_first_in_pages(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (number,) = supplier.stage_new()
    path = f"/account-import-attempts/{supplier.code}/{number}/"
    assert _get(supplier, path) == []
    made = [_attempt(supplier, number, worker_resources, dry_run=True) for _ in range(3)]
    made.append(_attempt(supplier, number, worker_resources))
    newest_first = made[::-1]
    assert [it["attempt_id"] for it in _get(supplier, path)] == newest_first
    for limit, pages in ((3, [newest_first[:3], newest_first[3:]]), (4, [newest_first])):
        found = supplier.pages(f"{path}?limit={limit}")
        assert [[it["attempt_id"] for it in page] for page in found] == pages


def test_failed_imports_are_those_whose_last_attempt_failed(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    _untried, failed, withdrawn, rehearsed, created, running = sorted(supplier.stage_new(6))
    path = f"/failed-account-import-processes/{supplier.code}/"
    assert _get(supplier, path) == []
    for number in (failed, rehearsed, created, running):
        attempt_id = _fail(supplier, number, worker_resources)
        if number == failed:
            expected_failed = attempt_id
    expected_withdrawn = _withdraw(supplier, withdrawn, worker_resources)
    _attempt(supplier, rehearsed, worker_resources, dry_run=True)
    _attempt(supplier, created, worker_resources)
    supplier.process(running)
    listed = _get(supplier, path)
    assert [
        (it["external_account_number"], it["attempt_id"], it["outcome"], it["code"]) for it in listed
    ] == [
        (failed, expected_failed, "FAILED", "account_failed_validation"),
        (withdrawn, expected_withdrawn, "WITHDRAWN", "no_worker_available"),
    ]
    pages = supplier.pages(f"{path}?limit=1")
    assert [[it["external_account_number"] for it in page] for page in pages] == [[failed], [withdrawn]]


@pytest.mark.parametrize("mode", ["import", "dry-run"])
def test_failed_imports_of_batches_are_listed(batches: BatchClient, mode: str) -> None:
    broken, _sound = batches.supplier.stage_new(2)
    number = AccountImportProcess.external_account_number
    with batches.supplier.Session.begin() as session:  # the database refuses what validation has passed
        payload = AccountImportProcess.payload.concat({"customers": [{"date_of_birth": "never"}]})
        session.execute(update(AccountImportProcess).where(number == broken).values(payload=payload))
    assert batches.post(None, mode, source="pending").status_code == 202
    batches.work()
    listed = _get(batches.supplier, f"/failed-account-import-processes/{batches.supplier.code}/")
    assert [(it["external_account_number"], it["outcome"]) for it in listed] == [(broken, "FAILED")]


def test_failed_imports_are_those_of_one_supplier_in_the_order_of_their_numbers_without_skipped_ones(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    other = SupplierClient.create(supplier.app, supplier.Session)
    for client, numbers in ((supplier, ("3", "1", "2")), (other, ("0", "9"))):
        for account, number in zip(client.accounts(len(numbers)), numbers, strict=True):
            client.stage(account | {"external_account_number": number})
            _fail(client, number, worker_resources)
    with supplier.Session.begin() as session:
        skip_accounts(session, supplier.known().id, ["2"])
    listed = _get(supplier, f"/failed-account-import-processes/{supplier.code}/")
    assert [it["external_account_number"] for it in listed] == ["1", "3"]


def test_import_suppliers_are_listed_with_counts_profile_and_status(
    supplier: SupplierClient, another: SupplierClient, worker_resources: WorkerResources
) -> None:
    numbers = sorted(supplier.stage_new(3))
    _attempt(supplier, numbers[0], worker_resources)
    other = f"{supplier.code}_2"
    with supplier.Session.begin() as session:
        create_import_supplier(session, code=other, organisation_name=supplier.organisation, profile="strict")
    supplier.set_status(SupplierStatus.PAUSED)
    nothing = {"PENDING": 0, "IN_PROGRESS": 0, "IMPORTED": 0, "SKIPPED": 0}
    emails = {"customer_emails": False, "emails_at": "at_go_live", "emails_from": None, "emails_held": 0}
    expected = [
        {
            "import_supplier": supplier.code,
            "status": "Paused",
            "profile": "lenient",
            "time_zone": "UTC",
            **emails,
            "counts": nothing | {"PENDING": 2, "IMPORTED": 1},
        },
        {
            "import_supplier": other,
            "status": "Ongoing",
            "profile": "strict",
            "time_zone": "Europe/Amsterdam",
            **emails,
            "counts": nothing,
        },
    ]
    assert _get(supplier, "/import-suppliers/") == expected
    assert [it["import_supplier"] for it in _get(another, "/import-suppliers/")] == [another.code]
    assert [_get(supplier, f"/import-suppliers/{it['import_supplier']}/") for it in expected] == expected
    assert supplier.get("/import-suppliers/NOBODY/").status_code == 404


@pytest.fixture
def path(batches: BatchClient) -> str:
    """The path of a comparison: of three accounts the second broke, and the third was mended."""
    sound, broke, mended = batches.supplier.accounts(3)
    before = batches.run([sound, broke, mended | {"billing_postcode": 7}], "validate")["batch_id"]
    after = batches.run([mended, broke | {"customers": "nobody"}, sound], "validate")["batch_id"]
    return f"/batches/{before}/comparison/{after}/"


def test_accounts_and_codes_are_compared(batches: BatchClient, path: str) -> None:
    found = json_of(batches.supplier.get(path))
    _, before, _, after, _ = path.removeprefix("/").split("/")
    assert (found["before"], found["after"]) == (before, after)
    counted = {name: number for name, number in found["accounts"].items() if number}
    assert counted == {"newly_broken": 1, "mended": 1, "passed": 1}
    assert {(it["code"], it["change"]) for it in found["codes"] if it["severity"] == "error"} == {
        ("invalid", "WENT"),
        ("not_a_list", "CAME"),
    }


def test_accounts_are_filtered_by_change_and_written_as_csv(batches: BatchClient, path: str) -> None:
    _sound, broke, mended = (it["external_account_number"] for it in batches.supplier.accounts(3))

    def accounts(query: str, **headers: str) -> Any:
        return batches.supplier.get(f"{path}accounts/{query}", headers=headers)

    listed = [msgspec.json.decode(line) for line in accounts("").data.splitlines()]
    assert [(it["external_account_number"], it["before_line"], it["after_line"]) for it in listed] == [
        (broke, 2, 2),
        (mended, 3, 1),
    ]
    assert (listed[1]["before_codes"], listed[1]["after_codes"]) == (["invalid"], [])
    answer = accounts("?change=NEWLY_BROKEN", Accept="text/csv")
    assert answer.mimetype == "text/csv"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["external_account_number"], row["after_codes"]) == (broke, "not_a_list")
    assert codes_of(accounts("?change=mended")) == [("change", "invalid_choice")]


def test_batches_of_two_suppliers_or_kinds_are_not_compared(
    batches: BatchClient, another: SupplierClient
) -> None:
    own, other = (batches.start([b"{}"], "validate") for _ in range(2))
    foreign = BatchClient(another, batches.resources).start([b"{}"], "validate")
    with batches.supplier.Session.begin() as session:
        supplier_id = session.get_one(Batch, foreign).import_supplier_id
        session.execute(update(Batch).where(Batch.id == other).values(import_supplier_id=supplier_id))
    notes = batches.start([b"{}"], "validate", kind="notes")
    for second in (other, notes):
        answer = batches.supplier.get(f"/batches/{own}/comparison/{second}/")
        assert (answer.status_code, json_of(answer)["code"]) == (400, "batches_not_comparable")
    for pair in ((own, foreign), (foreign, own), (own, uuid4()), (own, "..%2F1")):
        for ending in ("", "accounts/"):
            answer = batches.supplier.get(f"/batches/{pair[0]}/comparison/{pair[1]}/{ending}")
            assert answer.status_code == 404, pair
