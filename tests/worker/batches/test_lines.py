"""The results of the lines of a batch, in each mode and with every kind of error."""

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select, update

from migration_service.models import Account, AccountImportProcess, Attempt, ImportSupplier
from migration_service.services.imports.skipping import skip_accounts
from migration_service.states import Outcome, SupplierStatus
from migration_service.tasks.resources import WorkerResources
from migration_service_local.samples import FAULTS, break_account
from support.batch_client import BatchClient, counts
from support.supplier_client import SupplierClient


@pytest.fixture
def batches(supplier: SupplierClient, worker_resources: WorkerResources) -> BatchClient:
    return BatchClient(supplier, worker_resources)


def _count(batches: BatchClient, model: type[Account] | type[AccountImportProcess]) -> int:
    with batches.supplier.Session() as session:
        statement = (
            select(func.count())
            .select_from(model)
            .join(ImportSupplier, ImportSupplier.id == model.import_supplier_id)
            .where(ImportSupplier.code == batches.supplier.code)
        )
        return session.scalar(statement) or 0


def _codes(line: dict[str, Any]) -> list[str]:
    return [item["code"] for item in line["errors"]]


def _update_process(batches: BatchClient, number: str, **values: Any) -> None:
    with batches.supplier.Session.begin() as session:
        session.execute(
            update(AccountImportProcess).where(batches.supplier.process_of(number)).values(**values)
        )


@pytest.mark.parametrize("mode", ["validate", "dry-run", "import"])
def test_every_known_fault_is_reported_with_its_code_and_affects_no_other_line(
    batches: BatchClient, mode: str
) -> None:
    accounts = [it for it in batches.supplier.accounts(len(FAULTS) + 20) if "customers" in it]
    rng = Random(1)
    broken = [break_account(account, fault, rng) for account, fault in zip(accounts, FAULTS, strict=False)]
    sound = accounts[len(FAULTS) :]
    report = batches.run([*broken, *sound], mode)
    good = {"validate": "VALID", "dry-run": "WOULD_IMPORT", "import": "IMPORTED"}[mode]
    assert counts(report) == {good: len(sound), "FAILED": len(FAULTS)}
    failed = batches.results(report["batch_id"], "?status=FAILED")
    for line, fault in zip(failed, FAULTS.values(), strict=True):
        assert fault.code in _codes(line)
        assert fault.code in report["error_counts"]


def test_a_dry_run_finds_the_same_errors_as_the_import_and_leaves_nothing(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(12)
    del accounts[3]["ledgers"][0]["ledger_code"]
    rehearsal = batches.run(accounts, "dry-run")
    assert counts(rehearsal) == {"WOULD_IMPORT": 11, "FAILED": 1}
    assert (_count(batches, Account), _count(batches, AccountImportProcess)) == (0, 0)
    report = batches.run(accounts)
    assert counts(report) == {"IMPORTED": 11, "FAILED": 1}
    lines = zip(batches.results(rehearsal["batch_id"]), batches.results(report["batch_id"]), strict=True)
    for rehearsed, done in lines:
        assert rehearsed["errors"] == done["errors"]
        assert rehearsed["service_account_number"] is None


def test_an_account_that_a_batch_staged_is_processed_by_a_request(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    assert counts(batches.run(accounts, "stage")) == {"STAGED": 3}
    assert _count(batches, Account) == 0
    assert batches.supplier.process(accounts[0]["external_account_number"]).status_code == 202
    assert batches.supplier.stage(accounts[1]).status_code == 200


def test_malformed_foreign_and_repeated_lines_are_reported_with_their_numbers(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(4)
    foreign = accounts[3] | {"import_supplier": "SOMEBODY_ELSE"}
    changed = accounts[0] | {"billing_address1": "Elsewhere 1"}
    lines = [
        accounts[0],
        b"{",
        b"[]",
        foreign,
        changed,
        accounts[1],
        b'{"external_account_number":"\\ud800"}',
    ]
    report = batches.run(lines)
    results = batches.results(report["batch_id"])
    assert [line["status"] for line in results] == [
        "IMPORTED",
        "FAILED",
        "FAILED",
        "FAILED",
        "FAILED",
        "IMPORTED",
        "FAILED",
    ]
    assert _codes(results[1]) == ["parse_error"]
    assert _codes(results[2]) == ["not_a_dict"]
    assert _codes(results[3]) == ["import_supplier_mismatch"]
    assert _codes(results[4]) == ["duplicate_line_in_batch"]
    assert _codes(results[6]) == ["parse_error"]


def test_the_first_of_two_lines_of_an_account_is_used_even_if_it_fails(batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts()
    broken = deepcopy(account)
    del broken["ledgers"][0]["ledger_code"]
    report = batches.run([broken, account])
    assert [_codes(line) for line in batches.results(report["batch_id"])] == [
        ["required"],
        ["duplicate_line_in_batch"],
    ]


def test_accounts_that_exist_or_are_skipped_have_their_own_status(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    first = batches.run(accounts[:1])
    number = accounts[1]["external_account_number"]
    assert batches.supplier.stage(accounts[1]).status_code == 201
    with batches.supplier.Session.begin() as session:
        supplier = session.scalars(
            select(ImportSupplier).where(ImportSupplier.code == batches.supplier.code)
        ).one()
        skip_accounts(session, supplier.id, [number])
    for mode, good in (("dry-run", "WOULD_IMPORT"), ("import", "IMPORTED")):
        report = batches.run(accounts, mode)
        exists, skipped, created = batches.results(report["batch_id"])
        assert (exists["status"], _codes(exists)) == ("ALREADY_IMPORTED", ["account_already_imported"])
        assert (
            exists["service_account_number"]
            == batches.results(first["batch_id"])[0]["service_account_number"]
        )
        assert (skipped["status"], _codes(skipped)) == ("SKIPPED", ["account_marked_to_skip"])
        assert created["status"] == good


def test_an_account_that_the_database_refuses_fails_on_its_own(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(20)
    bad = [accounts[3]["external_account_number"], accounts[4]["external_account_number"]]
    batches.run(accounts[3:5])
    for (
        number
    ) in bad:  # The accounts exist, but their processes are pending, so that creation violates a constraint.
        _update_process(
            batches, number, state="PENDING", service_account_number=None, account_created_at=None
        )
    for mode, good in (("dry-run", "WOULD_IMPORT"), ("import", "IMPORTED")):
        report = batches.run(accounts, mode)
        assert counts(report) == {good: 18, "FAILED": 2}
        failed = batches.results(report["batch_id"], "?status=FAILED")
        assert [line["external_account_number"] for line in failed] == bad
        assert [_codes(line) for line in failed] == [["account_not_storable"]] * 2
    answer = batches.change(report["batch_id"], "retry-failed").json or {}
    assert (answer["retried"], answer["left"]) == (0, 2)
    assert _count(batches, Account) == 20


def test_each_account_has_its_attempt(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    batches.run(accounts, "stage")
    batches.run(accounts, "dry-run")
    batches.run(accounts)
    with batches.supplier.Session() as session:
        attempts = session.scalars(
            select(Attempt)
            .join(AccountImportProcess, AccountImportProcess.id == Attempt.account_import_process_id)
            .where(
                AccountImportProcess.external_account_number.in_(
                    [account["external_account_number"] for account in accounts]
                )
            )
            .order_by(Attempt.id)
        ).all()
    outcomes = [attempt.outcome for attempt in attempts]
    assert outcomes == [Outcome.DRY_RUN_SUCCEEDED] * 3 + [Outcome.SUCCEEDED] * 3
    assert all((attempt.service_account_number is None) == attempt.dry_run for attempt in attempts)


def test_pending_accounts_are_validated_again_if_the_rules_changed(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    batches.run(accounts, "stage")
    old, broken, _ = (account["external_account_number"] for account in accounts)
    _update_process(batches, old, rules_version="an earlier one")
    payload = accounts[1] | {"billing_postcode": 5}
    _update_process(batches, broken, rules_version="an earlier one", payload=payload)
    answer = batches.post(None, source="pending")
    batches.work()
    results = batches.results((answer.json or {})["batch_id"])
    statuses = {line["external_account_number"]: line["status"] for line in results}
    assert statuses == dict.fromkeys(statuses, "IMPORTED") | {broken: "FAILED"}


def test_warnings_are_kept_with_the_line(batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts()
    account["billing_postcode"] = "0000 SS"
    report = batches.run([account], "validate")
    assert report["warning_counts"] == {"invalid_postcode": 1}
    (line,) = batches.results(report["batch_id"])
    assert (line["status"], line["warnings"][0]["attr"]) == ("VALID", "billing_postcode")


@pytest.mark.parametrize(
    ("status", "state"), [(SupplierStatus.PAUSED, "WAITING"), (SupplierStatus.COMPLETE, "STOPPED")]
)
def test_a_batch_pauses_and_stops_with_its_supplier(
    batches: BatchClient, status: SupplierStatus, state: str
) -> None:
    batch_id = batches.start(batches.supplier.accounts(2))
    batches.supplier.set_status(status)
    batches.work()
    report = batches.get(batch_id)
    assert (report["state"], counts(report)) == (state, {"PENDING": 2})
    assert report["reason"] == f"import_supplier_{status.lower()}"
    assert (report["finished_at"] is None) == (state == "WAITING"), "only a batch that is over has an end"
    batches.supplier.set_status(SupplierStatus.ONGOING)
    if state == "STOPPED":
        assert batches.change(batch_id, "resume").status_code == 200
        assert batches.get(batch_id)["finished_at"] is None
    batches.work()
    report = batches.get(batch_id)
    assert (report["state"], report["reason"], counts(report)) == ("COMPLETED", None, {"IMPORTED": 2})
