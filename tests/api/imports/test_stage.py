"""Sections 3.1, 3.2 and 4.2: payloads are stored, as often as needed until the account is created."""

import threading
from functools import partial

from sqlalchemy import update

from migration_service.models import AccountImportProcess
from migration_service.rules.catalogue import RULES_VERSION
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.states import ImportState, SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import at_once
from support.supplier_client import SupplierClient


def _code(answer: object) -> str:
    return str(answer.json["code"])  # type: ignore[attr-defined]


def test_restaging_replaces_the_payload_and_the_same_again_changes_nothing(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)
    before = supplier.process_row(number)
    supplier.stage(account)
    unchanged = supplier.process_row(number)
    assert unchanged.staged_at == before.staged_at
    account["billing_address1"] = "Elsewhere 1"
    supplier.stage(account)
    after = supplier.process_row(number)
    assert after.payload is not None
    assert after.payload["billing_address1"] == "Elsewhere 1"
    assert after.staged_at > before.staged_at


def test_an_invalid_payload_is_refused_and_the_staged_one_is_kept(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    supplier.stage(account)
    broken = {**account, "supply_addresses": "nowhere"}
    answer = supplier.stage(broken)
    assert answer.status_code == 400
    assert _code(answer) == "account_failed_validation"
    payload = supplier.process_row(account["external_account_number"]).payload
    assert payload is not None
    assert payload["supply_addresses"] == account["supply_addresses"]


def test_two_simultaneous_stagings_answer_201_and_200(supplier: SupplierClient) -> None:
    for account in supplier.accounts(10):
        answers = at_once(partial(supplier.stage, account))
        assert sorted(answer.status_code for answer in answers) == [200, 201]


def test_warnings_of_the_lenient_profile_are_kept(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    account["billing_postcode"] = "not a postcode"
    assert supplier.stage(account).status_code == 201
    row = supplier.process_row(account["external_account_number"])
    assert row.warnings is not None
    assert [warning["code"] for warning in row.warnings] == ["invalid_postcode"]
    assert row.state == ImportState.PENDING
    assert row.attempt_id is None


def test_an_account_that_is_not_staged_is_skipped_without_a_process(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    with supplier.Session.begin() as session:
        for _ in range(2):
            skip_accounts(session, supplier.known().id, [number])
    for answer in (supplier.stage(account), supplier.process(number)):
        assert (answer.status_code, _code(answer)) == (400, "account_marked_to_skip")
    supplier.set_status(SupplierStatus.PAUSED)
    for answer in (supplier.stage(account), supplier.process(number)):
        assert _code(answer) == "account_marked_to_skip"
    supplier.set_status(SupplierStatus.ONGOING)
    assert supplier.status(number).status_code == 404
    assert supplier.get(f"/all-account-import-processes/{supplier.code}/").json == []
    batches = BatchClient(supplier, worker_resources)
    for mode in ("stage", "import"):
        assert batches.run([account], mode=mode)["counts"]["SKIPPED"] == 1
    assert supplier.status(number).status_code == 404
    with supplier.Session.begin() as session:
        unskip_accounts(session, supplier.known().id, [number])
    assert supplier.stage(account).status_code == 201
    assert supplier.process(number).status_code == 202


def test_an_account_that_is_staged_and_skipped_simultaneously_cannot_be_created(
    supplier: SupplierClient,
) -> None:
    for account in supplier.accounts(8):
        number = account["external_account_number"]

        def skip(number: str = number) -> None:
            with supplier.Session.begin() as session:
                skip_accounts(session, supplier.known().id, [number])

        skipping = threading.Thread(target=skip)
        skipping.start()
        assert supplier.stage(account).status_code in (201, 400)
        skipping.join()
        assert _code(supplier.process(number)) == "account_marked_to_skip"
        assert _code(supplier.stage(account)) == "account_marked_to_skip"


def test_staging_the_same_payload_after_a_change_of_the_rules_or_the_profile_records_them(
    supplier: SupplierClient,
) -> None:
    (account,) = supplier.accounts()
    supplier.stage(account)
    number = account["external_account_number"]
    with supplier.Session.begin() as session:
        older = {"rules_version": "older", "profile": "strict", "warnings": [{"code": "of older rules"}]}
        session.execute(update(AccountImportProcess).where(supplier.process_of(number)).values(**older))
    before = supplier.process_row(number).staged_at
    assert supplier.stage(account).status_code == 200
    row = supplier.process_row(number)
    assert (row.rules_version, row.profile, row.warnings) == (RULES_VERSION, "lenient", None)
    assert row.staged_at == before, "it is still the payload that was staged then"
