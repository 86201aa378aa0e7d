"""Sections 3.1, 3.2 and 4.2: payloads are stored, as often as needed until the account is created."""

from functools import partial

from sqlalchemy import update

from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.models import AccountImportProcess
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import at_once, code_of
from support.supplier_client import SupplierClient


def test_two_simultaneous_stagings_answer_201_and_200(supplier: SupplierClient) -> None:
    for account in supplier.accounts(10):
        answers = at_once(partial(supplier.stage, account))
        assert sorted(answer.status_code for answer in answers) == [200, 201]


def test_an_account_that_is_not_staged_is_skipped_without_a_process(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    with supplier.Session.begin() as session:
        for _ in range(2):
            skip_accounts(session, supplier.known().id, [number])
    for answer in (supplier.stage(account), supplier.process(number)):
        assert (answer.status_code, code_of(answer)) == (400, "account_marked_to_skip")
    supplier.set_status(SupplierStatus.PAUSED)
    for answer in (supplier.stage(account), supplier.process(number)):
        assert code_of(answer) == "account_marked_to_skip"
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
