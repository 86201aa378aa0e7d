"""Sections 3.2 and 4.3: staged data becomes one account, or the request fails with a reason, once per key."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from werkzeug.test import TestResponse

from migration_service.blueprints import process
from migration_service.config import Settings
from migration_service.models import AccountImportProcess, Attempt
from migration_service.services.processing import creation
from migration_service.services.processing.dispatch import AttemptUndoneError
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.processing.signals import notify
from migration_service.services.processing.slots import reconcile_slots
from migration_service.services.setup.limits import set_concurrency_limit
from migration_service.states import ImportState, SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.factories import MakeClient, json_of
from support.imported_account import at_once, code_of
from support.servers import wait_until
from support.supplier_client import SupplierClient


@pytest.mark.parametrize("lie", ["", "A-7kx2m9qd", "A-7KX2M9QD2"])
def test_a_false_notification_only_makes_the_request_ask_the_database(
    supplier: SupplierClient, worker_resources: WorkerResources, lie: str
) -> None:
    (number,) = supplier.stage_new()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(supplier.process, number, prefer="")
        wait_until(lambda: supplier.is_in_progress(number), "the attempt began")
        attempt_id = supplier.current_attempt(number)
        assert supplier.status(number).json == {"status": "IN_PROGRESS", "service_account_number": ""}
        notify(worker_resources.redis, worker_resources.slots, {attempt_id: lie})
        assert perform_attempt(worker_resources.Session, attempt_id)
        notify(worker_resources.redis, worker_resources.slots, {attempt_id: lie})
        answer = asking.result(30)
    assert answer.status_code == 201
    assert (
        json_of(answer)["service_account_number"]
        == json_of(supplier.status(number))["service_account_number"]
    )


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
    number = json_of(supplier.status(second["external_account_number"]))["service_account_number"]
    assert number not in ("", taken)


def test_beyond_the_limit_the_answer_is_429_with_retry_after(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    first, second = supplier.stage_new(2)
    worker_resources.redis.delete("migration:slots")  # what tests before this one left
    with supplier.Session.begin() as session:
        reconcile_slots(session, worker_resources.slots)
        set_concurrency_limit(session, worker_resources.slots.in_use() + 1)
    assert supplier.process(first).status_code == 202
    answer = supplier.process(second)
    assert (answer.status_code, code_of(answer)) == (429, "concurrency_limit_reached")
    assert 1 <= int(answer.headers["Retry-After"]) <= 3


def _process(supplier: SupplierClient, number: str, key: str, **fields: Any) -> TestResponse:
    return supplier.process(number, headers={"Idempotency-Key": key}, **fields)


def test_an_answer_that_asks_to_retry_is_not_kept(
    supplier: SupplierClient,
    make_client: MakeClient,
    migrated: Settings,
    worker_resources: WorkerResources,
) -> None:
    impatient = replace(supplier, app=make_client(replace(migrated, process_wait_seconds=0.05)).application)
    number, key = supplier.stage_new()[0], str(uuid4())
    supplier.set_status(SupplierStatus.PAUSED)
    assert code_of(_process(supplier, number, key)) == "import_supplier_paused"
    supplier.set_status(SupplierStatus.ONGOING)
    assert code_of(_process(impatient, number, key, prefer="")) == "no_worker_available"
    (attempt,) = json_of(supplier.get(f"/account-import-attempts/{supplier.code}/{number}/"))
    assert (attempt["outcome"], attempt["error"]["code"]) == ("WITHDRAWN", "no_worker_available")
    (failed,) = json_of(supplier.get(f"/failed-account-import-processes/{supplier.code}/"))
    assert (failed["outcome"], failed["code"]) == ("WITHDRAWN", "no_worker_available")
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
