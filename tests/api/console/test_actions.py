"""What operators do in the console: each form says what it will touch, acts once, and is in the audit."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import batch_actions, keys, supplier_actions
from migration_service.config import Settings
from migration_service.db.base import new_id
from migration_service.models import (
    ApiKey,
    Batch,
    ImportSupplier,
    WebhookEndpoint,
)
from migration_service.services.access.api_keys import find_prefix, issue_api_key
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


def test_a_file_is_checked_then_rehearsed_then_staged_or_imported(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    accounts = batches.supplier.accounts(4)
    accounts[2]["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    file = b"\n".join((ndjson(accounts[:1]), ndjson(accounts[1:])))
    answer = administrator.upload(batches.supplier.code, file, name="week 12")
    assert answer.status_code == 303, answer.text
    checked = answer.location.split("/")[-2]
    batches.work()
    assert counts(batches.get(checked)) == {"VALID": 3, "FAILED": 1}
    rehearsed = _next(administrator, batches, checked, "dry-run", "4 lines are imported and rolled back")
    assert counts(batches.get(rehearsed)) == {"WOULD_IMPORT": 3, "FAILED": 1}
    staged = _next(administrator, batches, rehearsed, "stage", "4 lines are checked and stored.")
    assert counts(batches.get(staged)) == {"STAGED": 3, "FAILED": 1}
    assert f"/console/suppliers/{batches.supplier.code}/waves/new/" in administrator.see(
        f"/batches/{staged}/"
    )
    again = _next(administrator, batches, checked, "stage", "4 lines are checked and stored.")
    imported = _next(administrator, batches, rehearsed, "import", "4 lines are imported: their accounts")
    assert counts(batches.get(imported)) == {"IMPORTED": 3, "FAILED": 1}
    # The second line of the file is blank, so the faulty account is on the fourth, in every batch.
    for batch_id in (checked, rehearsed, staged, again, imported):
        (failed,) = batches.results(batch_id, "?status=FAILED")
        assert failed["line_number"] == 4
        (entry,) = audited(sessions, action="batch.ordered", subject=batch_id)
        assert entry.actor_kind == "operator"
    assert "week 12" in administrator.see(f"/batches/{imported}/")


def _next(client: ConsoleClient, batches: BatchClient, batch_id: str, mode: str, sentence: str) -> str:
    path = f"/batches/{batch_id}/repeat/{mode}/"
    assert f"/console{path}" in client.see(f"/batches/{batch_id}/")
    assert sentence in client.see(path)
    fields = client.tokens(path) | {"team": batches.supplier.team}
    first, again = client.post(path, fields), client.post(path, fields)
    assert first.status_code == 303, first.text
    assert first.location == again.location
    batches.work()
    return str(first.location.split("/")[-2])


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


def test_a_key_is_revoked_with_the_webhooks_that_it_has_created(
    administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    path = f"/setup/keys/{find_prefix(batches.supplier.api_key)}/revoke/"
    with sessions.begin() as session:
        other = find_prefix(issue_api_key(session, organisation_name=batches.supplier.organisation))
        key, new = (
            session.scalars(select(ApiKey).where(ApiKey.prefix == it)).one()
            for it in (find_prefix(batches.supplier.api_key), other)
        )
        values = {"organisation_id": key.organisation_id, "url": "https://a.example/?key=secret"}
        session.add_all(WebhookEndpoint(id=new_id(), api_key_id=it.id, **values) for it in (new, key))
        key_id = key.id
    sentence = "The key and 1 session end immediately. Its batches are paused. This is permanent."
    assert "https://a.example/?…" in administrator.see(path)
    assert administrator.form(path).sentence == sentence
    administrator.send(path)
    assert len(audited(sessions, action="api_key.revoked", subject=path.split("/")[-3])) == 1
    with sessions() as session:
        is_off = WebhookEndpoint.disabled_at.is_not(None)
        assert session.scalars(select(WebhookEndpoint.api_key_id).where(is_off)).all() == [key_id]


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


def test_a_bound_administrator_makes_nothing_for_another_organisation(
    log_in: LogIn, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    own = batches.supplier.organisation
    client = log_in(OperatorRole.ADMINISTER, own)
    for path, fields in (
        ("/suppliers/new/", {"code": "STOLEN", "profile": "lenient"}),
        ("/setup/teams/new/", {"name": "Stolen"}),
    ):
        answer = client.send(path, {**fields, "organisation": "Somebody else"})
        assert answer.status_code == 400, path
    shared = client.send("/setup/teams/new/", {"name": "Shared?", "organisation": own, "shared": "y"})
    assert shared.status_code == 303
    assert own in client.see("/setup/teams/")
