"""What operators do in the console: each form says what it will touch, acts once, and is in the audit."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import batch_actions, keys, supplier_actions
from migration_service.config import Settings
from migration_service.models import (
    ApiKey,
    ImportSupplier,
)
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.access.operators import OperatorRole
from migration_service.services.batches.intake.storing import repeat_batch
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
