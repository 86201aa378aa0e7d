"""Reverting accounts: every table is as it was before, also if the worker is killed in the middle."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import Connection, event, func, text, update
from sqlalchemy.exc import IntegrityError

from migration_service import models
from migration_service.blueprints.requests.resources import resources
from migration_service.db.base import Base
from migration_service.db.jobs import Progress, take_due
from migration_service.log import request_id
from migration_service.services.accounts.removal import removal_statements
from migration_service.services.processing import creation
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.services.undo import execution
from migration_service.services.undo.execution import MAX_TRIES, revert_piece
from migration_service.states import EmailMoment
from migration_service.tasks.jobs import SECONDS, UNDOS, sweep_jobs
from migration_service.tasks.names import REVERT_ACCOUNTS
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import json_of
from support.imported_account import ImportedAccount
from support.messages import noted_messages
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient, dump


@pytest.fixture
def account(supplier: SupplierClient, worker_resources: WorkerResources) -> ImportedAccount:
    """An account whose customer has an e-mail that was not sent yet."""
    with supplier.Session.begin() as session:
        set_customer_emails(session, supplier.code, on=True, at=EmailMoment.AT_CREATION)
    customer = {"family_name": "Jansen", "email": "a@example.org"}
    return ImportedAccount.create(supplier, worker_resources, customers=[customer])


def _import_pending(batches: BatchClient) -> str:
    answer = batches.post(None, source="pending")
    batches.work()
    return str((answer.json or {})["batch_id"])


def _process(batches: BatchClient, number: str) -> str:
    assert batches.supplier.process(number).status_code == 202
    batches.supplier.work(batches.resources, number)
    return str(json_of(batches.supplier.status(number))["service_account_number"])


@contextmanager
def _killed_before(connection: Connection, statement: int) -> Iterator[None]:
    """Raise an error instead of sending so many-th statement."""
    numbers = count(1)

    def kill(*_arguments: Any) -> None:
        if next(numbers) == statement:
            raise KeyboardInterrupt

    event.listen(connection, "before_cursor_execute", kill)
    try:
        yield
    finally:
        event.remove(connection, "before_cursor_execute", kill)


def test_the_account_of_a_single_request_leaves_nothing_either(
    supplier: SupplierClient, batches: BatchClient, undos: UndoClient
) -> None:
    (number,) = supplier.stage_new(1)
    before = dump(supplier.Session)
    _process(batches, number)
    undos.run(number)
    assert dump(supplier.Session) == before


def test_a_worker_that_is_killed_at_any_statement_leaves_everything_as_it_was(
    supplier: SupplierClient, batches: BatchClient, undos: UndoClient
) -> None:
    with supplier.Session.begin() as session:
        set_customer_emails(session, supplier.code, on=True, at=EmailMoment.AT_CREATION)
    supplier.stage_new(2)
    before = dump(supplier.Session)
    undo_id = undos.start(batch=_import_pending(batches))
    imported = dump(supplier.Session)
    assert imported["customer_email"] != before["customer_email"]
    for statement in count(1):
        with supplier.Session() as session, _killed_before(session.connection(), statement):
            try:
                revert_piece(session, UUID(undo_id))
                session.commit()
                break
            except KeyboardInterrupt:
                session.rollback()
        assert dump(supplier.Session) == imported, f"killed before statement {statement}"
    assert statement > len(removal_statements())
    assert undos.work(undo_id) is Progress.OVER
    assert dump(supplier.Session) == before


def test_an_undo_goes_on_where_a_killed_worker_left_it(
    supplier: SupplierClient, batches: BatchClient, undos: UndoClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "PIECE", 2)
    supplier.stage_new(5)
    before = dump(supplier.Session)
    undo_id = undos.start(batch=_import_pending(batches))
    with supplier.Session.begin() as session:
        assert revert_piece(session, UUID(undo_id)) is Progress.WORKED
    assert undos.get(undo_id)["counts"] == {"PENDING": 3, "REVERTED": 2, "KEPT": 0}
    with supplier.Session.begin() as session:
        assert UUID(undo_id) not in take_due(session, "undo"), "somebody works on it"
    for ago in ("1 minute", "-1 hour"):  # the clock was set back
        undos.change(undo_id, dispatched_at=func.now() - text(f"interval '{ago}'"))
        with supplier.Session.begin() as session:
            assert UUID(undo_id) in take_due(session, "undo")
    assert undos.work(undo_id) is Progress.OVER
    assert dump(supplier.Session) == before


def test_an_account_that_was_created_again_is_not_the_one_that_is_undone(
    supplier: SupplierClient, batches: BatchClient, undos: UndoClient
) -> None:
    (number,) = supplier.stage_new(1)
    _process(batches, number)
    late = undos.start(number)
    undos.work(undos.start_beside(late, number))
    second = _process(batches, number)
    undos.work(late)
    assert undos.reasons(late) == [["account_not_imported"]]
    assert json_of(supplier.status(number))["service_account_number"] == second


def test_the_account_is_created_again_with_another_number(
    supplier: SupplierClient, batches: BatchClient, undos: UndoClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    (number,) = supplier.stage_new(1)
    first = _process(batches, number)
    undos.run(number)
    assert supplier.process(number).status_code == 202
    with monkeypatch.context() as patched:
        patched.setattr(creation, "new_service_account_number", lambda: first)
        with pytest.raises(IntegrityError, match="uq_account_service_account_number"):
            supplier.work(batches.resources, number)
    supplier.work(batches.resources, number)
    second = json_of(supplier.status(number))["service_account_number"]
    assert second not in ("", first)
    with supplier.Session() as session:
        assert session.get(models.RetiredAccountNumber, first)
        assert not session.get(models.RetiredAccountNumber, second)


@pytest.mark.parametrize("table", ["account_import_process", "account", "customer_email"])
def test_what_somebody_else_holds_is_left_for_later(
    account: ImportedAccount, undos: UndoClient, table: str
) -> None:
    undo_id = undos.start(account.number)
    with account.supplier.Session() as somebody:
        somebody.execute(text(f"SELECT FROM {table} FOR NO KEY UPDATE"))
        assert undos.work(undo_id) is Progress.WAITS
    assert undos.get(undo_id)["counts"]["PENDING"] == 1
    undos.make_due(undo_id)
    assert undos.work(undo_id) is Progress.OVER
    assert undos.reasons(undo_id) == [[]]


def test_an_account_whose_email_is_being_sent_is_left_for_later(
    account: ImportedAccount, undos: UndoClient
) -> None:
    undo_id = undos.start(account.number)

    def lease(minutes: int) -> None:
        with account.supplier.Session.begin() as session:
            until = func.now() + timedelta(minutes=minutes)
            session.execute(update(models.CustomerEmail).values(failures=1, leased_until=until))
        undos.make_due(undo_id)

    lease(1)
    assert undos.work(undo_id) is Progress.WAITS
    assert undos.get(undo_id)["counts"]["PENDING"] == 1
    lease(-1)
    assert undos.work(undo_id) is Progress.OVER
    assert undos.reasons(undo_id) == [[]]


def test_what_somebody_else_always_holds_is_kept(account: ImportedAccount, undos: UndoClient) -> None:
    undo_id = undos.start(account.number)
    with account.supplier.Session() as somebody:
        somebody.execute(text("SELECT FROM account FOR NO KEY UPDATE"))
        for _ in range(MAX_TRIES):
            undos.make_due(undo_id)
            progress = undos.work(undo_id)
    assert progress is Progress.OVER
    assert undos.reasons(undo_id) == [["account_busy"]]


def test_every_table_that_refers_to_an_account_is_emptied() -> None:
    removed = {str(it).split()[2] for it in removal_statements()}
    below: set[str] = set()
    found = {"account"}
    while found > below:
        below = found
        for table in Base.metadata.sorted_tables:
            if any(key.column.table.name in below for key in table.foreign_keys):
                found = found | {table.name}
    assert removed == below
    assert {"customer_email", "note", "payment_instruction", "tax_item"} < removed


def test_the_task_reverts_everything_and_the_sweep_finds_what_was_lost(
    account: ImportedAccount, undos: UndoClient, app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    with app.app_context():
        celery = resources().celery
    celery.set_current()
    celery.loader.import_default_modules()
    undo_id = undos.start(account.number)
    undos.change(undo_id, dispatched_at=None)
    message = (REVERT_ACCOUNTS, (undo_id,))
    with noted_messages() as published:
        sweep_jobs()
        assert published == [message]
        monkeypatch.setitem(SECONDS, UNDOS, 0)
        assert celery.tasks[REVERT_ACCOUNTS].run(undo_id) == "worked"
        assert request_id.get() == f"undo {undo_id}", "the log tells what the task works for"
        monkeypatch.undo()
    assert published == [message, message], "another message continues what was not finished"
    run = celery.tasks[REVERT_ACCOUNTS].run
    assert [run(undo_id), run(undo_id), run(str(uuid4()))] == ["over"] * 3
    assert undos.get(undo_id)["state"] == "COMPLETED"
