"""The removal by the task that beat sends: every setting, zero, and both sides of each boundary."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from celery import current_app
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.tasks.maintenance import remove_old_data
from migration_service.tasks.resources import WorkerResources
from support.factories import close_celery
from support.imported_account import ImportedAccount
from support.supplier_client import SupplierClient

#: Each setting has another number, so that none can be used for another.
DAYS = {
    "batch_idle_days": 33,
    "batch_retention_days": 41,
    "payload_retention_days": 52,
    "staged_retention_days": 63,
    "error_retention_days": 74,
}

Remove = Callable[..., None]


@pytest.fixture
def remove(migrated: Settings) -> Iterator[Remove]:
    """Run the task with the settings above or others."""
    before = current_app._get_current_object()  # type: ignore[attr-defined]
    made = []

    def run(**days: int) -> None:
        made.append(create_celery(replace(migrated, **(DAYS | days))))  # type: ignore[arg-type]
        remove_old_data()

    yield run
    for celery in made:
        close_celery(celery)
    before.set_current()


@contextmanager
def _one(sessions: sessionmaker[Session]) -> Iterator[Callable[..., Any]]:
    with sessions.begin() as session:
        yield lambda sql, **values: session.execute(text(sql), values)


def _age(
    sessions: sessionmaker[Session], table: str, columns: str, where: str, days: float, **keys: Any
) -> None:
    """Let the times of some rows be this many days and a minute ago."""
    moved = ", ".join(
        f"{column} = now() - make_interval(days => {days}, mins => 1)" for column in columns.split()
    )
    with _one(sessions) as execute:
        assert execute(f"UPDATE {table} SET {moved} WHERE {where}", **keys).rowcount == 1  # noqa: S608


def _process(sessions: sessionmaker[Session], number: str) -> Any:
    with _one(sessions) as execute:
        return execute(
            "SELECT state, payload IS NOT NULL AS has_payload, warnings FROM account_import_process "
            "WHERE external_account_number = :number",
            number=number,
        ).one_or_none()


@pytest.mark.parametrize(
    ("days", "setting", "kept"),
    [(51, {}, True), (52, {}, False), (500, {"payload_retention_days": 0}, True)],
)
def test_payloads_of_created_accounts_are_removed_in_time(
    *,
    days: int,
    setting: dict[str, int],
    kept: bool,
    remove: Remove,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    sessions: sessionmaker[Session],
) -> None:
    account = ImportedAccount.create(supplier, worker_resources)
    where = "external_account_number = :number"
    # It was staged long ago, but the time of the creation counts.
    _age(sessions, "account_import_process", "staged_at", where, 600, number=account.number)
    _age(sessions, "account_import_process", "account_created_at", where, days, number=account.number)
    remove(**setting)
    process = _process(sessions, account.number)
    assert (process.state, process.has_payload) == ("IMPORTED", kept)
    assert account.read()["billing_address1"] == "Singel 1"


@pytest.mark.parametrize(
    ("days", "setting", "kept"),
    [(62, {}, True), (63, {}, False), (500, {"staged_retention_days": 0}, True)],
)
@pytest.mark.parametrize("skipped", [False, True])
def test_accounts_that_were_never_created_are_removed_in_time(
    *,
    days: int,
    setting: dict[str, int],
    kept: bool,
    skipped: bool,
    remove: Remove,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    sessions: sessionmaker[Session],
) -> None:
    (account,) = supplier.accounts()
    number = f"{supplier.code} {account['external_account_number']}"
    payload = account | {"external_account_number": number}
    assert supplier.stage(payload).status_code == 201
    where = "external_account_number = :number"
    _age(sessions, "account_import_process", "staged_at", where, days, number=number)
    if skipped:
        with _one(sessions) as execute:
            execute(
                "UPDATE account_import_process SET state = 'SKIPPED' WHERE external_account_number = :number",
                number=number,
            )
    remove(**setting)
    assert (_process(sessions, number) is not None) is kept
    again = supplier.stage(payload)
    assert again.status_code == (400 if skipped else 200 if kept else 201), again.text


@pytest.mark.parametrize(
    ("days", "setting", "kept"),
    [(73, {}, True), (74, {}, False), (500, {"error_retention_days": 0}, True)],
)
def test_texts_of_errors_of_attempts_are_removed_in_time(
    *,
    days: int,
    setting: dict[str, int],
    kept: bool,
    remove: Remove,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    sessions: sessionmaker[Session],
) -> None:
    account = ImportedAccount.create(supplier, worker_resources)
    with _one(sessions) as execute:
        attempt_id = execute(
            """
            UPDATE attempt SET outcome = 'FAILED', error_code = 'some_code', error_detail = 'Some detail.',
                errors = '[]'
            WHERE account_import_process_id =
                  (SELECT id FROM account_import_process WHERE external_account_number = :number)
            RETURNING id
            """,
            number=account.number,
        ).scalar_one()
    _age(sessions, "attempt", "finished_at", "id = :id", days, id=attempt_id)
    remove(**setting)
    with _one(sessions) as execute:
        left = execute(
            "SELECT error_code, error_detail, errors FROM attempt WHERE id = :id", id=attempt_id
        ).one()
    assert left.error_code == "some_code"
    assert (left.error_detail is not None, left.errors is not None) == (kept, kept)


def _start_batch(supplier: SupplierClient) -> str:
    started = supplier.app.test_client().post(
        f"/v1/data-import/batches/?import_supplier={supplier.code}&mode=validate",
        data=b'{"external_account_number": "1"}',
        headers={"Authorization": f"Token {supplier.token}", "Content-Type": "application/x-ndjson"},
    )
    assert started.status_code == 202, started.text
    return str(started.json["batch_id"])  # type: ignore[index]


def _batch(sessions: sessionmaker[Session], batch_id: str) -> tuple[str, bool]:
    """Return the state of the batch, and True if it has its lines."""
    with _one(sessions) as execute:
        state = execute("SELECT state FROM batch WHERE id = :id", id=batch_id).scalar_one()
        lines = execute("SELECT count(*) FROM batch_line WHERE batch_id = :id", id=batch_id).scalar_one()
        return state, bool(lines)


@pytest.mark.parametrize(
    ("state", "days", "setting", "expected"),
    [
        ("COMPLETED", 40, {}, ("COMPLETED", True)),
        ("COMPLETED", 41, {}, ("COMPLETED", False)),
        ("CANCELLED", 41, {}, ("CANCELLED", False)),
    ],
)
def test_lines_of_batches_that_ended_are_removed_in_time(
    *,
    state: str,
    days: int,
    setting: dict[str, int],
    expected: tuple[str, bool],
    remove: Remove,
    supplier: SupplierClient,
    sessions: sessionmaker[Session],
) -> None:
    batch_id = _start_batch(supplier)
    with _one(sessions) as execute:
        execute("UPDATE batch SET state = :state WHERE id = :id", state=state, id=batch_id)
    _age(sessions, "batch", "finished_at", "id = :id", days, id=batch_id)
    remove(**setting)
    assert _batch(sessions, batch_id) == expected
    _age(sessions, "batch", "finished_at", "id = :id", 0, id=batch_id)  # leave nothing for other tests


@pytest.mark.parametrize(
    ("state", "days", "worked", "setting", "expected"),
    [
        ("PAUSED", 32, None, {}, "PAUSED"),
        ("PAUSED", 33, None, {}, "CANCELLED"),
        ("WAITING", 33, None, {}, "CANCELLED"),
        ("PAUSED", 500, 32, {}, "PAUSED"),
        ("PAUSED", 500, 33, {}, "CANCELLED"),
        ("RUNNING", 500, None, {}, "RUNNING"),
        ("PAUSED", 500, None, {"batch_idle_days": 0}, "PAUSED"),
    ],
)
def test_idle_batches_are_cancelled(
    *,
    state: str,
    days: int,
    worked: int | None,
    setting: dict[str, int],
    expected: str,
    remove: Remove,
    supplier: SupplierClient,
    sessions: sessionmaker[Session],
) -> None:
    batch_id = _start_batch(supplier)
    with _one(sessions) as execute:
        execute("UPDATE batch SET state = :state WHERE id = :id", state=state, id=batch_id)
    _age(sessions, "batch", "created_at", "id = :id", days, id=batch_id)
    if worked is not None:
        _age(sessions, "batch_chunk", "worked_at", "batch_id = :id", worked, id=batch_id)
    remove(**setting)
    assert _batch(sessions, batch_id) == (expected, True)
