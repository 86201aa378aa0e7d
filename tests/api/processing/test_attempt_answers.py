"""Answers of process: the state of the account comes first, attempts, and repeated requests."""

import time
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from werkzeug.test import TestResponse

from migration_service.blueprints import process
from migration_service.config import Settings
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.processing.dispatch import AttemptUndoneError
from migration_service.states import ImportState, SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.factories import MakeClient, json_of
from support.imported_account import ImportedAccount, at_once, code_of
from support.supplier_client import SupplierClient


def _process(supplier: SupplierClient, number: str, key: str, **fields: Any) -> TestResponse:
    return supplier.process(number, headers={"Idempotency-Key": key}, **fields)


@pytest.fixture
def impatient(supplier: SupplierClient, make_client: MakeClient, migrated: Settings) -> SupplierClient:
    """Return the supplier as a client of an application that does not wait for a worker."""
    application = make_client(replace(migrated, process_wait_seconds=0.05)).application
    return replace(supplier, app=application)


@pytest.mark.parametrize("status", [SupplierStatus.PAUSED, SupplierStatus.COMPLETE])
def test_an_imported_account_is_answered_with_its_numbers_whatever_the_status_of_its_supplier(
    account: ImportedAccount, status: SupplierStatus
) -> None:
    supplier = account.supplier
    supplier.set_status(status)
    number = account.read()["service_account_number"]
    payload = supplier.accounts()[0] | {"external_account_number": account.number}
    for answer in (supplier.process(account.number), supplier.stage(payload)):
        assert (answer.status_code, code_of(answer)) == (400, "account_already_imported")
        body = json_of(answer)
        assert body["external_account_number"] == account.number
        assert body["service_account_number"] == number


def test_a_202_has_the_address_of_the_attempt(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = supplier.stage_new()[0]
    answer = supplier.process(number, dry_run=True)
    assert answer.status_code == 202
    attempt_id = str(supplier.current_attempt(number))
    assert answer.json == {
        "status": "IN_PROGRESS",
        "external_account_number": number,
        "attempt_id": attempt_id,
    }
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.headers["Preference-Applied"] == "respond-async"
    path = answer.headers["Location"].removeprefix("/v1/data-import")
    assert json_of(supplier.get(path))["state"] == "IN_PROGRESS"
    supplier.work(worker_resources, number)
    assert json_of(supplier.get(path))["error"]["code"] == "dry_run_succeeded"


def test_a_repeated_request_is_answered_with_the_state_of_its_attempt(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number, key = supplier.stage_new()[0], str(uuid4())
    first = _process(supplier, number, key)
    again = _process(supplier, number, key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json == first.json
    assert again.headers["Location"] == first.headers["Location"]
    supplier.work(worker_resources, number)
    done = _process(supplier, number, key)
    service_account_number = json_of(supplier.status(number))["service_account_number"]
    assert (done.status_code, done.json) == (201, {"service_account_number": service_account_number})
    assert code_of(_process(supplier, number, str(uuid4()))) == "account_already_imported"
    assert code_of(_process(supplier, number, key, dry_run=True)) == "idempotency_key_reused"


def test_a_repeated_dry_run_is_not_run_again(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number, key = supplier.stage_new()[0], str(uuid4())
    _process(supplier, number, key, dry_run=True)
    attempt_id = supplier.work(worker_resources, number)
    again = _process(supplier, number, key, dry_run=True)
    assert (again.status_code, code_of(again)) == (400, "dry_run_succeeded")
    attempts = supplier.get(f"/account-import-attempts/{supplier.code}/{number}/").json or ()
    assert [it["attempt_id"] for it in attempts] == [attempt_id]


def test_a_request_that_was_refused_before_any_attempt_is_carried_out_when_it_comes_again(
    supplier: SupplierClient,
) -> None:
    key = str(uuid4())
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    assert code_of(_process(supplier, number, key)) == "account_not_staged"
    supplier.stage(account)
    assert _process(supplier, number, key).status_code == 202


def test_an_answer_that_asks_to_retry_is_not_kept(
    supplier: SupplierClient, impatient: SupplierClient, worker_resources: WorkerResources
) -> None:
    number, key = supplier.stage_new()[0], str(uuid4())
    supplier.set_status(SupplierStatus.PAUSED)
    assert code_of(_process(supplier, number, key)) == "import_supplier_paused"
    supplier.set_status(SupplierStatus.ONGOING)
    assert code_of(_process(impatient, number, key, prefer="")) == "no_worker_available"
    assert _process(supplier, number, key).status_code == 202
    supplier.work(worker_resources, number)
    assert _process(supplier, number, key).status_code == 201


def test_of_simultaneous_requests_with_one_key_one_begins_an_attempt_that_answers_all(
    supplier: SupplierClient,
) -> None:
    number, key = supplier.stage_new()[0], str(uuid4())
    answers = at_once(lambda: _process(supplier, number, key), times=5)
    assert {answer.status_code for answer in answers} == {202}
    assert {json_of(answer)["attempt_id"] for answer in answers} == {str(supplier.current_attempt(number))}
    assert len(json_of(supplier.get(f"/account-import-attempts/{supplier.code}/{number}/"))) == 1


def test_an_attempt_that_was_lost_with_a_server_begins_again_and_the_time_to_wait_does_not(
    supplier: SupplierClient,
) -> None:
    number = supplier.stage_new()[0]
    waits: list[tuple[UUID, float]] = []

    def wait(_dispatch: object, attempt_id: UUID, until: float) -> str:
        waits.append((attempt_id, until))
        if len(waits) == 1:
            with supplier.Session.begin() as session:
                session.delete(session.get_one(Attempt, attempt_id))
                process = session.get_one(AccountImportProcess, supplier.process_row(number).id)
                process.state, process.attempt_id = ImportState.PENDING, None
            raise AttemptUndoneError
        return "A-12345678"

    began_at = time.monotonic()
    with patch.object(process, "wait_for_outcome", wait):
        assert supplier.process(number, prefer="").status_code == 201
    (first, until), (second, again) = waits
    assert first != second
    assert until == again > began_at


class _KilledError(BaseException):
    """What a killed process would not have the time to handle."""


def test_the_attempt_of_a_request_that_was_killed_answers_its_repetition(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number, key = supplier.stage_new()[0], str(uuid4())
    with (
        patch("migration_service.blueprints.process._accepted", side_effect=_KilledError),
        pytest.raises(_KilledError),
    ):
        _process(supplier, number, key)
    again = _process(supplier, number, key)
    assert (again.status_code, json_of(again)["attempt_id"]) == (202, str(supplier.current_attempt(number)))
    supplier.work(worker_resources, number)
    assert _process(supplier, number, key).status_code == 201
