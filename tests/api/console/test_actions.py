"""What operators do in the console: each form says what it will touch, acts once, and is in the audit."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import batch_actions, keys, supplier_actions
from migration_service.config import Settings
from migration_service.models import (
    ApiKey,
    Batch,
    ImportSupplier,
)
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.access.operators import OperatorRole
from migration_service.services.batches.repeat import repeat_batch
from support.audit import audited
from support.batch_client import BatchClient, counts, ndjson
from support.console_client import ConsoleClient, LogIn, make_operator
from support.factories import MakeClient
from support.imported_account import at_once


def test_a_form_that_is_sent_several_times_acts_once_and_answers_the_same(
    administrator: ConsoleClient, batches: BatchClient, broken_batch: str, sessions: sessionmaker[Session]
) -> None:
    path = f"/batches/{broken_batch}/retry/?everything=1"
    assert "Retry 2 lines" in administrator.see(path)
    fields = administrator.tokens(path) | {"everything": "y"}
    answers = [*at_once(lambda: administrator.post(path, fields), times=4), administrator.post(path, fields)]
    assert {(it.status_code, it.location) for it in answers} == {(303, f"/console/batches/{broken_batch}/")}
    assert len(audited(sessions, action="batch.retried", subject=broken_batch)) == 1
    batches.work()
    assert counts(batches.get(broken_batch))["FAILED"] == 2


def test_a_form_that_is_sent_again_with_other_values_is_not_taken_for_the_first_one(
    administrator: ConsoleClient, batches: BatchClient
) -> None:
    code = batches.supplier.code
    path = f"/suppliers/{code}/status/"
    fields = administrator.tokens(path)
    assert administrator.post(path, {**fields, "status": "Paused"}).status_code == 303
    answer = administrator.post(path, {**fields, "status": "Complete"})
    assert answer.status_code == 400
    assert "was already sent, with other values" in answer.text


def test_a_form_of_another_session_does_nothing(
    administrator: ConsoleClient, log_in: LogIn, batches: BatchClient
) -> None:
    batch_id = batches.start(batches.supplier.accounts(2))
    path = f"/batches/{batch_id}/pause/"
    fields = administrator.tokens(path)
    administrator.post(path, fields)
    other = log_in()
    stolen = {**fields, "csrf_token": other.tokens("/work/")["csrf_token"]}
    assert other.post(f"/batches/{batch_id}/resume/", stolen).status_code == 400
    assert batches.get(batch_id)["state"] == "PAUSED"


def test_a_batch_is_repeated_while_no_connection_is_held(
    administrator: ConsoleClient, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/batches/{batches.run(batches.supplier.accounts(1), 'validate')['batch_id']}/repeat/stage/"
    held: list[int] = []

    def repeat(sessions: sessionmaker[Session], *args: Any, **kwargs: Any) -> UUID:
        held.append(sessions.kw["bind"].pool.checkedout())
        return repeat_batch(sessions, *args, **kwargs)

    monkeypatch.setattr(batch_actions, "repeat_batch", repeat)
    administrator.act(path, {"team": batches.supplier.team})
    assert held == [0]


def test_the_same_upload_twice_is_one_batch(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    file = ndjson(batches.supplier.accounts(1))
    tokens = administrator.tokens(f"/suppliers/{batches.supplier.code}/upload/")
    first = administrator.upload(batches.supplier.code, file, **tokens)
    second = administrator.upload(batches.supplier.code, file, **tokens)
    assert first.location == second.location
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Batch)) == 1


def test_an_upload_without_its_tokens_or_its_file_is_refused(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    code, file = batches.supplier.code, ndjson(batches.supplier.accounts(1))
    assert administrator.upload(code, file, csrf_token="wrong").status_code == 400
    assert administrator.upload(code, file, form_token="wrong").status_code == 400
    assert administrator.upload(code, file, step="wrong").status_code == 400
    assert administrator.upload(code, None).status_code == 400
    empty = administrator.upload(code, b"\n\n")
    assert empty.status_code == 400
    assert "The file has no lines." in empty.text
    table = administrator.upload(code, b"number;name\n1;Anna\n")
    assert table.status_code == 400
    assert "This looks like a CSV file." in table.text
    no_form = administrator.client.post(f"/console/suppliers/{code}/upload/", data=file)
    assert no_form.status_code == 400
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Batch)) == 0


def test_a_file_may_be_as_large_as_the_setting_says(
    migrated: Settings, make_client: MakeClient, sessions: sessionmaker[Session], batches: BatchClient
) -> None:
    file = ndjson(batches.supplier.accounts(1))
    for largest, status in ((len(file), 303), (len(file) - 1, 413)):
        settings = replace(migrated, console=True, max_batch_bytes=largest)
        client = ConsoleClient(make_client(settings).application)
        client.log_in(make_operator(sessions, OperatorRole.OPERATE))
        assert client.upload(batches.supplier.code, file).status_code == status


def test_what_web_processes_keep_in_memory_is_answered_when_all_of_them_know(
    administrator: ConsoleClient,
    batches: BatchClient,
    sessions: sessionmaker[Session],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: list[tuple[bool, str]] = []

    def wait() -> None:
        with sessions() as session:
            key = session.scalars(select(ApiKey).where(ApiKey.prefix == prefix)).one()
            supplier = session.scalars(select(ImportSupplier).where(ImportSupplier.code == code)).one()
            known.append((key.revoked_at is not None, supplier.status))

    code, prefix = batches.supplier.code, find_prefix(batches.supplier.api_key)
    monkeypatch.setattr(keys, "wait_until_known", wait)
    monkeypatch.setattr(supplier_actions, "wait_until_known", wait)
    administrator.see(f"/suppliers/{code}/status/")
    assert known == []
    administrator.send(f"/suppliers/{code}/status/", {"status": "Paused"})
    administrator.send(f"/setup/keys/{prefix}/revoke/")
    assert known == [(False, "Paused"), (True, "Paused")]
