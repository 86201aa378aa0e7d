"""Sections 3.2 and 4.3: staged data becomes exactly one account, or the request fails with a reason."""

import re
import threading
from unittest.mock import patch

import pytest
from sqlalchemy import func, select, update

from migration_service.models import Account, AccountImportProcess, Attempt, ImportSupplier
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.processing import creation
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import notify
from migration_service.services.processing.slot_leases import reconcile_slots
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.tasks.resources import WorkerResources
from support.factories import json_of
from support.imported_account import codes_of
from support.servers import wait_until
from support.supplier_client import SupplierClient


def _stage(supplier: SupplierClient) -> str:
    (account,) = supplier.accounts()
    assert supplier.stage(account).status_code == 201
    return str(account["external_account_number"])


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


def _work(supplier: SupplierClient, resources: WorkerResources, number: str) -> None:
    attempt_id = supplier.current_attempt(number)
    performed = perform_attempt(resources.Session, attempt_id)
    assert performed
    notify(resources.redis, resources.slots, attempt_id, performed.service_account_number)


def _created_number(supplier: SupplierClient, number: str) -> str:
    with supplier.Session() as session:
        return session.scalars(
            select(Account.service_account_number)
            .join(ImportSupplier, ImportSupplier.id == Account.import_supplier_id)
            .where(ImportSupplier.code == supplier.code, Account.external_account_number == number)
        ).one()


def test_respond_async_answers_202_and_status_shows_progress_and_completion(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = _stage(supplier)
    answer = supplier.process(number)
    assert answer.status_code == 202
    assert answer.headers["Preference-Applied"] == "respond-async"
    assert supplier.status(number).json == {"status": "IN_PROGRESS", "service_account_number": ""}
    _work(supplier, worker_resources, number)
    status = supplier.status(number)
    assert json_of(status)["status"] == "COMPLETED"
    assert re.fullmatch(r"A-[A-Z0-9]{8}", json_of(status)["service_account_number"])


def test_the_request_waits_for_the_worker_and_answers_201(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = _stage(supplier)
    answers = []
    request = threading.Thread(target=lambda: answers.append(supplier.process(number, prefer="")))
    request.start()
    wait_until(lambda: json_of(supplier.status(number))["status"] == "IN_PROGRESS", "the attempt began")
    assert supplier.status(number).json == {"status": "IN_PROGRESS", "service_account_number": ""}
    _work(supplier, worker_resources, number)
    request.join()
    assert answers[0].status_code == 201
    assert json_of(answers[0])["service_account_number"] == _created_number(supplier, number)


@pytest.mark.parametrize("lie", ["look", "", "1", "A-", "A-7kx2m9qd", "A-7KX2M9QD2", "\N{SNOWMAN}"])
def test_a_false_notification_only_makes_the_request_ask_the_database(
    supplier: SupplierClient, worker_resources: WorkerResources, lie: str
) -> None:
    number = _stage(supplier)
    answers = []
    request = threading.Thread(target=lambda: answers.append(supplier.process(number, prefer="")))
    request.start()
    wait_until(lambda: json_of(supplier.status(number))["status"] == "IN_PROGRESS", "the attempt began")
    attempt_id = supplier.current_attempt(number)
    notify(worker_resources.redis, worker_resources.slots, attempt_id, lie)
    assert perform_attempt(worker_resources.Session, attempt_id)
    notify(worker_resources.redis, worker_resources.slots, attempt_id, lie)
    request.join()
    assert answers[0].status_code == 201
    assert json_of(answers[0])["service_account_number"] == _created_number(supplier, number)


def test_a_dry_run_that_would_succeed_is_rolled_back_and_says_so(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = _stage(supplier)
    answers = []
    request = threading.Thread(
        target=lambda: answers.append(supplier.process(number, prefer="", dry_run=True))
    )
    request.start()
    wait_until(lambda: json_of(supplier.status(number))["status"] == "IN_PROGRESS", "the attempt began")
    _work(supplier, worker_resources, number)
    request.join()
    assert answers[0].status_code == 400
    assert json_of(answers[0])["code"] == "dry_run_succeeded"
    assert json_of(answers[0])["detail"] == "Account would successfully import. Rolled back due to Dry Run."
    assert supplier.status(number).json == {"status": "UNKNOWN", "service_account_number": ""}
    assert _count_accounts(supplier) == 0


def test_an_account_that_the_database_refuses_fails_the_attempt_with_a_reason(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = _stage(supplier)
    with supplier.Session.begin() as session:  # a date that no schema accepts
        session.execute(
            update(AccountImportProcess)
            .where(supplier.process_of(number))
            .values(payload={"unknown_occupier": False, "customers": [{"date_of_birth": "no date"}]})
        )
    supplier.process(number)
    attempt_id = supplier.current_attempt(number)
    _work(supplier, worker_resources, number)
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
            known = get_import_supplier(session, client.code, organisation_id=None)
            skip_accounts(session, known.id, [skipped])
    assert supplier.process(number).status_code == 202
    assert json_of(other.status(number))["status"] == "UNKNOWN"


def test_a_service_account_number_that_exists_is_drawn_again_at_the_next_try(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    first, second = supplier.accounts(2)
    for account in (first, second):
        supplier.stage(account)
        supplier.process(account["external_account_number"])
    _work(supplier, worker_resources, first["external_account_number"])
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
        _work(supplier, worker_resources, first["external_account_number"])
        assert supplier.process(second["external_account_number"]).status_code == 202
        _work(supplier, worker_resources, second["external_account_number"])
    finally:
        with supplier.Session.begin() as session:
            set_concurrency_limit(session, 250)


def _change_staged(supplier: SupplierClient, number: str, **values: object) -> None:
    with supplier.Session.begin() as session:
        session.execute(update(AccountImportProcess).where(supplier.process_of(number)).values(**values))


def _process_to_the_end(supplier: SupplierClient, resources: WorkerResources, number: str) -> Attempt:
    supplier.process(number)
    attempt_id = supplier.current_attempt(number)
    _work(supplier, resources, number)
    with supplier.Session() as session:
        return session.get_one(Attempt, attempt_id)


#: A payload that the rules refuse: it has no customers, and unknown_occupier is not true.
_AGAINST_THE_RULES = {
    "external_account_number": "1",
    "import_supplier": "S",
    "unknown_occupier": False,
    "customers": [],
}


def test_a_payload_that_passed_these_rules_is_not_validated_again(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    number = _stage(supplier)
    _change_staged(supplier, number, payload=_AGAINST_THE_RULES)
    assert _process_to_the_end(supplier, worker_resources, number).outcome == "SUCCEEDED"


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
    answers = []
    request = threading.Thread(target=lambda: answers.append(supplier.process(number, prefer="")))
    request.start()
    wait_until(lambda: json_of(supplier.status(number))["status"] == "IN_PROGRESS", "the attempt began")
    attempt_id = supplier.current_attempt(number)
    assert perform_attempt(worker_resources.Session, attempt_id)
    notify(worker_resources.redis, worker_resources.slots, attempt_id)
    request.join()
    assert json_of(answers[0])["code"] == "account_failed_validation"
    assert codes_of(answers[0]) == [("billing_postcode", "invalid_postcode")]
