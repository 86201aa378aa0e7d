"""Sections 3.2 and 4.3: staged data becomes one account, or the request fails with a reason, once per key."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, update
from werkzeug.test import TestResponse

from migration_service.blueprints import process
from migration_service.config import Settings
from migration_service.models import Account, AccountImportProcess, Attempt, ImportSupplier
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.processing import creation
from migration_service.services.processing.dispatch import AttemptUndoneError
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import notify
from migration_service.services.processing.slots import reconcile_slots
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.states import ImportState, SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.factories import MakeClient, json_of
from support.imported_account import ImportedAccount, at_once, code_of, codes_of
from support.servers import wait_until
from support.supplier_client import SupplierClient


def _count_accounts(supplier: SupplierClient) -> int:
    with supplier.Session() as session:
        return (
            session.scalar(
                select(func.count())
                .select_from(Account)
                .join(ImportSupplier, ImportSupplier.id == Account.import_supplier_id)
                .where(ImportSupplier.code == supplier.code)
            )
            or 0
        )


def _created_number(supplier: SupplierClient, number: str) -> str:
    with supplier.Session() as session:
        return session.scalars(
            select(Account.service_account_number)
            .join(ImportSupplier, ImportSupplier.id == Account.import_supplier_id)
            .where(ImportSupplier.code == supplier.code, Account.external_account_number == number)
        ).one()


def _answer(
    supplier: SupplierClient, number: str, work: Callable[[UUID], object], *, dry_run: bool = False
) -> TestResponse:
    """Process an account with a request that waits for its outcome. Call `work` once the attempt began."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(supplier.process, number, prefer="", dry_run=dry_run)
        wait_until(lambda: supplier.is_in_progress(number), "the attempt began")
        work(supplier.current_attempt(number))
        return answer.result(30)


@pytest.mark.parametrize("lie", ["", "A-7kx2m9qd", "A-7KX2M9QD2"])
def test_a_false_notification_only_makes_the_request_ask_the_database(
    supplier: SupplierClient, worker_resources: WorkerResources, lie: str
) -> None:
    (number,) = supplier.stage_new()

    def work(attempt_id: UUID) -> None:
        assert supplier.status(number).json == {"status": "IN_PROGRESS", "service_account_number": ""}
        notify(worker_resources.redis, worker_resources.slots, {attempt_id: lie})
        assert perform_attempt(worker_resources.Session, attempt_id)
        notify(worker_resources.redis, worker_resources.slots, {attempt_id: lie})

    answer = _answer(supplier, number, work)
    assert answer.status_code == 201
    assert json_of(answer)["service_account_number"] == _created_number(supplier, number)


def test_an_account_that_the_database_refuses_fails_the_attempt_with_a_reason(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = supplier.stage_new()[0]
    with supplier.Session.begin() as session:  # a date that no schema accepts
        session.execute(
            update(AccountImportProcess)
            .where(supplier.process_of(number))
            .values(payload={"unknown_occupier": False, "customers": [{"date_of_birth": "no date"}]})
        )
    supplier.process(number)
    attempt_id = supplier.current_attempt(number)
    supplier.work(worker_resources, number)
    with supplier.Session() as session:
        attempt = session.get_one(Attempt, attempt_id)
        assert (attempt.outcome, attempt.error_code) == ("FAILED", "account_not_storable")
        assert "a value of the account: invalid datetime format." in (attempt.error_detail or "")
    assert (supplier.status(number).json or {})["status"] == "UNKNOWN"
    assert _count_accounts(supplier) == 0


def test_neither_a_neighbour_nor_a_namesake_of_another_supplier_matters(supplier: SupplierClient) -> None:
    other, third = (SupplierClient.create(supplier.app, supplier.Session) for _ in range(2))
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    for client in (supplier, other):
        payload = client.accounts()[0] | {"external_account_number": number}
        assert client.stage(payload).status_code == 201
    with supplier.Session.begin() as session:
        for client, skipped in ((supplier, "another"), (third, number)):
            skip_accounts(session, client.known().id, [skipped])
    assert supplier.process(number).status_code == 202
    assert json_of(other.status(number))["status"] == "UNKNOWN"


def test_a_service_account_number_that_exists_is_drawn_again_at_the_next_try(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    first, second = supplier.accounts(2)
    for account in (first, second):
        supplier.stage(account)
        supplier.process(account["external_account_number"])
    supplier.work(worker_resources, first["external_account_number"])
    taken = (supplier.status(first["external_account_number"]).json or {})["service_account_number"]
    attempt_id = supplier.current_attempt(second["external_account_number"])
    with (
        patch.object(creation, "new_service_account_number", return_value=taken),
        pytest.raises(Exception, match="uq_account_service_account_number"),
    ):
        perform_attempt(worker_resources.Session, attempt_id)
    assert (supplier.status(second["external_account_number"]).json or {})["status"] == "IN_PROGRESS"
    assert perform_attempt(worker_resources.Session, attempt_id)
    assert _count_accounts(supplier) == 2


def test_beyond_the_limit_the_answer_is_429_with_retry_after(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    first, second = supplier.accounts(2)
    for account in (first, second):
        supplier.stage(account)
    worker_resources.redis.delete("migration:slots")  # what tests before this one left
    with supplier.Session.begin() as session:
        reconcile_slots(session, worker_resources.slots)
        set_concurrency_limit(session, worker_resources.slots.in_use() + 1)
    try:
        assert supplier.process(first["external_account_number"]).status_code == 202
        answer = supplier.process(second["external_account_number"])
        assert (answer.status_code, (answer.json or {})["code"]) == (429, "concurrency_limit_reached")
        assert 1 <= int(answer.headers["Retry-After"]) <= 3
        assert (supplier.status(second["external_account_number"]).json or {})["status"] == "UNKNOWN"
        supplier.work(worker_resources, first["external_account_number"])
        assert supplier.process(second["external_account_number"]).status_code == 202
        supplier.work(worker_resources, second["external_account_number"])
    finally:
        with supplier.Session.begin() as session:
            set_concurrency_limit(session, 250)


def test_all_names_of_a_process_request_that_are_unknown_are_told(supplier: SupplierClient) -> None:
    unknown: dict[str, Any] = {"operations_team_name": "nobody"}
    account = supplier.process("nobody knows it", **unknown)
    assert [code for _, code in codes_of(account)] == ["account_not_staged", "operations_team_not_found"]
    everything = supplier.process("nobody knows it", import_supplier_code="nobody", **unknown)
    assert codes_of(everything) == [
        ("import_supplier_code", "import_supplier_not_found"),
        ("operations_team_name", "operations_team_not_found"),
    ]


def test_a_supplier_that_became_strict_has_its_payloads_validated_again(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (account,) = supplier.accounts()
    account["billing_postcode"] = "nowhere"
    number = account["external_account_number"]
    assert supplier.stage(account).status_code == 201
    with supplier.Session.begin() as session:
        session.execute(
            update(ImportSupplier).where(ImportSupplier.code == supplier.code).values(profile="strict")
        )
    answer = _answer(supplier, number, lambda _id: supplier.work(worker_resources, number))
    assert json_of(answer)["code"] == "account_failed_validation"
    assert codes_of(answer) == [("billing_postcode", "invalid_postcode")]


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
