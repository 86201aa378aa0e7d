"""The whole audit: the rows that requests write tell who wrote them, and each filter selects its entries."""

from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import new_id
from migration_service.db.sql import begin
from migration_service.errors import AccountFailedValidationError
from migration_service.models import (
    Account,
    AccountImportProcess,
    ApiKey,
    Attempt,
    AuditEntry,
    Batch,
    ImportSupplier,
    Note,
    OperationsTeam,
    PaymentInstruction,
    PaymentVendor,
    Statement,
    TokenSession,
    Transaction,
    UndoLine,
    Wave,
    WavePlan,
)
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.audit.trail import (
    TrailFilter,
    read_trail,
    stream_trail,
)
from migration_service.services.processing.attempts import withdraw_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import OBTAIN, json_of
from support.imported_account import LEDGER, ImportedAccount
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient

Told = dict[str, dict[str, Any]]

TRANSACTION = {
    "transaction_id": "T-1",
    "transaction_date": "2025-03-01",
    "amount": "25.00",
    "type": "PAYMENT",
    "payment_type": "DIRECT_CREDIT",
}
STATEMENT = {
    "bill_period_from_date": "2024-01-01",
    "bill_period_to_date": "2024-12-31",
    "statement_id": "S-1",
    "issued_date": "2025-01-15",
    "number": "INV-1",
    "gross_amount": 154020,
}


@pytest.fixture
def other(app: Flask, sessions: sessionmaker[Session]) -> SupplierClient:
    """Another organisation."""
    return SupplierClient.create(app, sessions)


def _told(sessions: sessionmaker[Session], **wanted: Any) -> list[dict[str, Any]]:
    with sessions.begin() as session:
        return list(stream_trail(session, TrailFilter(**wanted)))


def _by_request(sessions: sessionmaker[Session], **wanted: Any) -> Told:
    """Return entries by the ids of their requests. Fail if two have the same one."""
    told = _told(sessions, **wanted)
    found = {it["request_id"]: it for it in told}
    assert len(found) == len(told)
    return found


def _expected(supplier: SupplierClient, request_id: str, action: str, **fields: Any) -> dict[str, Any]:
    return {
        "actor_kind": "api_key",
        "actor": find_prefix(supplier.api_key),
        "organisation": supplier.organisation,
        "address": "127.0.0.1",
        "request_id": request_id,
        "action": action,
        "subject_kind": "account",
        "outcome": "DONE",
        "code": None,
        "details": None,
        **fields,
    }


def _post(supplier: SupplierClient, path: str, request_id: str, body: Any, **arguments: str) -> Any:
    headers = {"X-Request-ID": request_id, "Prefer": "respond-async"}
    answer = supplier.post(path, body, headers=headers, query_string=arguments)
    assert answer.status_code in (201, 202), answer.text
    return answer.json


def _attempt(supplier: SupplierClient, number: str, request_id: str, **fields: Any) -> UUID:
    body = {
        "external_account_number": number,
        "import_supplier_code": supplier.code,
        "operations_team_name": supplier.team,
        **fields,
    }
    _post(supplier, "/account-import-process/process/", request_id, body)
    return supplier.current_attempt(number)


def test_every_row_of_an_account_tells_who_wrote_it_when_and_with_which_result(
    supplier: SupplierClient, other: SupplierClient, worker_resources: WorkerResources
) -> None:
    sessions = supplier.Session
    payload = supplier.accounts()[0]
    number = str(payload["external_account_number"])
    other.stage(other.accounts()[0] | {"external_account_number": number})
    _post(supplier, "/account-import-process/create-or-update/", "staging", payload)
    attempts = {}
    attempts["failed"] = _attempt(supplier, number, "failed")
    with (
        patch("migration_service.services.processing.attempts.RULES_VERSION", "newer"),
        patch("migration_service.services.processing.attempts.validate_account") as validate,
    ):
        validate.return_value.raise_errors.side_effect = AccountFailedValidationError
        perform_attempt(sessions, attempts["failed"])
    attempts["withdrawn"] = _attempt(supplier, number, "withdrawn")
    with begin(sessions) as transaction:
        assert withdraw_attempt(transaction, attempts["withdrawn"])
    attempts["dry-run"] = _attempt(supplier, number, "dry-run", dry_run=True)
    perform_attempt(sessions, attempts["dry-run"])
    attempts["created"] = _attempt(supplier, number, "created")
    perform_attempt(sessions, attempts["created"])
    worker_resources.slots.release([str(it) for it in attempts.values()])

    told = _by_request(sessions, account=(supplier.code, number))
    subject = f"{supplier.code} {number}"
    expected = [
        _expected(supplier, "staging", "account.staged", subject=subject),
        *(
            _expected(supplier, request_id, "account.processed", subject=subject, outcome=outcome, code=code)
            for request_id, outcome, code in (
                ("failed", "REFUSED", "account_failed_validation"),
                ("withdrawn", "REFUSED", "withdrawn"),
                ("dry-run", "DONE", "dry_run_succeeded"),
                ("created", "DONE", "succeeded"),
            )
        ),
    ]
    with sessions() as session:
        staged_at = select(AccountImportProcess.staged_at).where(supplier.process_of(number))
        moments = {"staging": session.scalar(staged_at)} | {
            request_id: session.get_one(Attempt, id_).created_at for request_id, id_ in attempts.items()
        }
    assert {it: entry.pop("at") for it, entry in told.items()} == moments
    assert told == {it["request_id"]: it for it in expected}


def test_added_data_tells_who_added_it_and_what_came_with_the_account_does_not(
    supplier: SupplierClient, worker_resources: WorkerResources, other: SupplierClient
) -> None:
    came_with_it: Any = LEDGER | {"transactions_in_open_settlement_period": [TRANSACTION]}
    parts = {"ledgers": [came_with_it], "statements": [STATEMENT]}
    account, theirs = (ImportedAccount.create(it, worker_resources, **parts) for it in (supplier, other))
    sessions, organisation = supplier.Session, supplier.organisation
    before = len(_told(sessions, organisation=organisation))
    theirs.post_notes({"body": "theirs"})
    transaction, statement = TRANSACTION | {"transaction_id": "T-2"}, STATEMENT | {"statement_id": "S-2"}
    for path, request_id, added in (
        ("/notes/create/", "note", {"notes": [{"body": "a"}]}),
        ("/transactions/create/", "transaction", {"transactions": [transaction]}),
        ("/historical-statements/create/", "statement", {"statements": [statement]}),
    ):
        _post(supplier, path, request_id, {**account.pair, **added})
    with sessions.begin() as session:
        this = session.scalars(select(Account).where(Account.external_account_number == account.number)).one()
        vendor = PaymentVendor(name="v", kind="http", url="http://127.0.0.1:1", secret_env="NONE")
        session.add(vendor)
        session.flush()
        key_id = session.scalar(select(ApiKey.id).where(ApiKey.prefix == find_prefix(supplier.api_key)))
        trace = {"api_key_id": key_id, "request_id": "instruction", "address": "127.0.0.1"}
        of = {"account_pk": this.id, "payment_vendor_pk": vendor.id}
        session.add(PaymentInstruction(**of, **trace, reference="r", type="CARD", details={}))
        # Notes of former times did not have the moment at which they were added.
        session.execute(
            insert(Note).values(
                account_pk=this.id,
                body="old",
                documents=[],
                created_at=func.now(),
                added_at=None,
                is_pinned=False,
                sameness_sha256=b"old",
                **trace,
            )
        )
    told = _told(sessions, organisation=organisation)
    assert len(told) == before + 4
    by_request = {it["request_id"]: it for it in told[:4]}
    with sessions() as session:
        moments = {
            kind: session.scalar(select(moment).where(request_id == kind))
            for kind, moment, request_id in (
                ("note", Note.added_at, Note.request_id),
                ("transaction", Transaction.created_at, Transaction.request_id),
                ("statement", Statement.created_at, Statement.request_id),
                ("instruction", PaymentInstruction.created_at, PaymentInstruction.request_id),
            )
        }
    assert {it: entry.pop("at") for it, entry in by_request.items()} == moments
    subject = f"{supplier.code} {account.number}"
    assert by_request == {
        it: _expected(supplier, it, f"{kind}.added", subject=subject)
        for it, kind in (
            ("note", "note"),
            ("transaction", "transaction"),
            ("statement", "statement"),
            ("instruction", "payment_instruction"),
        )
    }


def test_a_session_a_batch_and_the_lines_of_an_undo_tell_who_began_them(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    sessions, resources = supplier.Session, worker_resources
    body = {"query": OBTAIN, "variables": {"input": {"APIKey": supplier.api_key}}}
    supplier.app.test_client().post("/v1/graphql/", json=body, headers={"X-Request-ID": "session"})
    batches = BatchClient(supplier, resources)
    accounts = [ImportedAccount.create(supplier, resources) for _ in range(2)]
    batch = batches.post(b"{}\n", "validate", headers={"X-Request-ID": "batch"})
    undos = UndoClient(supplier)
    accounts[1].post_notes({"body": "An account with a note is kept."})
    numbers = [it.number for it in accounts]
    answer = undos.post(*numbers, headers={"X-Request-ID": "undo"})
    undo_id = json_of(answer)["undo_id"]
    undos.work(undo_id)

    (batch_entry,) = _told(sessions, request_id="batch")
    (session_entry,) = _told(sessions, request_id="session")
    started, reverted = sorted(_told(sessions, request_id="undo"), key=lambda it: it["action"], reverse=True)
    assert started["action"] == "undo.started"
    with sessions() as session:
        token_session = session.scalars(
            select(TokenSession).where(TokenSession.request_id == "session")
        ).one()
        line = select(UndoLine.finished_at).where(UndoLine.position == 1)
        assert batch_entry.pop("at") == session.get_one(Batch, json_of(batch)["batch_id"]).created_at
        assert session_entry.pop("at") == token_session.created_at
        assert reverted.pop("at") == session.scalar(line)
    of_batch = {"subject_kind": "batch", "subject": json_of(batch)["batch_id"]}
    assert batch_entry == _expected(supplier, "batch", "batch.started", **of_batch)
    of_session = {"subject_kind": "session", "subject": str(token_session.id)}
    assert session_entry == _expected(supplier, "session", "session.began", **of_session)
    subject = f"{supplier.code} {numbers[0]}"
    assert reverted == _expected(supplier, "undo", "account.reverted", subject=subject)


def test_a_row_without_a_key_was_written_by_the_service_unless_somebody_ordered_it(
    supplier: SupplierClient,
) -> None:
    sessions = supplier.Session
    orders = [
        ("batch 1", "batch", "1", AuditAction.BATCH_ORDERED, "anna"),
        ("batch 2", "batch", "2", AuditAction.BATCH_ORDERED, "anna"),
        ("batch 2", "batch", "2", AuditAction.BATCH_TAKEN_OVER, "berta"),
        ("undo 3", "undo", "3", AuditAction.UNDO_STARTED, "carla"),
        ("batch 4", "batch", "4", AuditAction.BATCH_PAUSED, "dora"),
    ]
    for _, kind, subject, action, actor in orders:
        with acting_as(Origin(kind=ActorKind.OPERATOR, actor=actor)), sessions.begin() as session:
            record(session, action, kind, subject)
    requests = ["batch 1", "batch 2", "undo 3", "batch 4", "batch 5"]
    for account, request_id in zip(supplier.accounts(len(requests)), requests, strict=True):
        supplier.stage(account)
        with sessions.begin() as session:
            row = update(AccountImportProcess).where(supplier.process_of(account["external_account_number"]))
            session.execute(row.values(staged_by_api_key_id=None, staged_request_id=request_id))
    told = _by_request(sessions, action="account.staged")
    assert {it: (entry["actor_kind"], entry["actor"]) for it, entry in told.items()} == {
        "batch 1": ("operator", "anna"),
        "batch 2": ("operator", "berta"),
        "undo 3": ("operator", "carla"),
        "batch 4": ("service", None),
        "batch 5": ("service", None),
    }


def test_the_rows_of_a_wave_name_who_made_its_plan_until_somebody_takes_its_batch_over(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    sessions = supplier.Session
    batches = BatchClient(supplier, worker_resources)
    batch_ids = [batches.start([{}], "validate") for _ in range(4)]
    with sessions.begin() as session:
        known = session.scalars(select(ImportSupplier).where(ImportSupplier.code == supplier.code)).one()
        team_id = session.scalars(select(OperationsTeam.id)).first() or 0
        fields = {
            "organisation_id": known.organisation_id,
            "import_supplier_id": known.id,
            "operations_team_id": team_id,
            "seed": 1,
            "continue_if_clean": False,
        }
        plans = [WavePlan(id=new_id(), finished_at=end, **fields) for end in (None, func.now())]
        session.add_all(plans)
        session.flush()
        waves = [(0, 1), (0, 2), (1, 1), (0, 3)]
        session.add_all(
            Wave(plan_id=plans[plan].id, number=number, batch_id=UUID(batch_id))
            for (plan, number), batch_id in zip(waves, batch_ids, strict=True)
        )
        subjects = [str(it.id) for it in plans]
    for action, kind, subject, actor in (
        (AuditAction.WAVE_PLAN_CREATED, "wave_plan", subjects[0], "anna"),
        (AuditAction.WAVE_PLAN_CREATED, "wave_plan", subjects[1], "berta"),
        (AuditAction.WAVE_QUEUED, "wave_plan", subjects[0], "carla"),
        (AuditAction.BATCH_TAKEN_OVER, "batch", batch_ids[1], "dora"),
    ):
        with acting_as(Origin(kind=ActorKind.OPERATOR, actor=actor)), sessions.begin() as session:
            record(session, action, kind, subject)
    requests = [f"batch {it}" for it in batch_ids]
    for account, request_id in zip(supplier.accounts(len(requests)), requests, strict=True):
        supplier.stage(account)
        with sessions.begin() as session:
            row = update(AccountImportProcess).where(supplier.process_of(account["external_account_number"]))
            session.execute(row.values(staged_by_api_key_id=None, staged_request_id=request_id))
    told = _by_request(sessions, action="account.staged")
    people = [(told[it]["actor_kind"], told[it]["actor"]) for it in requests]
    assert people == [("operator", it) for it in ("anna", "dora", "berta", "anna")]


def test_an_entry_about_an_account_names_it_while_it_exists(supplier: SupplierClient) -> None:
    (payload,) = supplier.accounts()
    supplier.stage(payload)
    number = payload["external_account_number"]
    with supplier.Session.begin() as session:
        process = session.scalars(select(AccountImportProcess).where(supplier.process_of(number))).one()
        record(session, AuditAction.ACCOUNT_READ, "account", process.id)
        record(session, AuditAction.ACCOUNT_READ, "account", 0)
        record(session, AuditAction.BATCH_PAUSED, "batch", process.id)
    told = _told(supplier.Session, only_entries=True)[:3]
    assert {(it["subject_kind"], it["subject"]) for it in told} == {
        ("account", f"{supplier.code} {number}"),
        ("account", "0"),
        ("batch", str(process.id)),
    }


@pytest.fixture
def entries(supplier: SupplierClient, other: SupplierClient) -> list[str]:
    """Five entries that differ in everything, the subjects in the order in which they were written."""
    with supplier.Session.begin() as session:
        for number, (client, kind, code) in enumerate(
            [
                (supplier, "batch", None),
                (supplier, "api_key", None),
                (other, "batch", "not_allowed"),
                (None, "batch", None),
                (None, "team", None),
            ]
        ):
            found = select(ApiKey.organisation_id)
            organisation_id = client and session.scalar(
                found.where(ApiKey.prefix == find_prefix(client.api_key))
            )
            session.add(
                AuditEntry(
                    actor_kind="operator",
                    actor=f"actor {number}",
                    organisation_id=organisation_id,
                    address=f"10.0.0.{number}",
                    request_id=f"request {number}",
                    action=f"thing.done_{number}",
                    subject_kind=kind,
                    subject=str(number),
                    outcome="REFUSED" if code else "DONE",
                    code=code,
                    details={"number": number},
                )
            )
            session.flush()
    return ["0", "1", "2", "3", "4"]


@pytest.mark.usefixtures("entries")
def test_each_filter_selects_the_entries_that_it_names(
    supplier: SupplierClient, other: SupplierClient
) -> None:
    def subjects(**wanted: Any) -> str:
        told = _told(supplier.Session, only_entries=True, **wanted)
        return "".join(it["subject"] for it in told if it["action"].startswith("thing"))

    with supplier.Session() as session:
        by_prefix = {it.prefix: it.organisation_id for it in session.scalars(select(ApiKey))}
        moments = session.scalars(
            select(AuditEntry.at).where(AuditEntry.action.like("thing%")).order_by(AuditEntry.id)
        ).all()
    ours, theirs = (by_prefix[find_prefix(it.api_key) or ""] for it in (supplier, other))
    assert subjects() == "43210"
    assert subjects(organisation=supplier.organisation) == "10"
    assert subjects(organisation_ids=[ours]) == "10"
    assert subjects(organisation_ids=[theirs, ours]) == "210"
    assert subjects(organisation_ids=[]) == ""
    assert subjects(actor="actor 3") == "3"
    assert subjects(action="thing.done_1") == "1"
    assert subjects(request_id="request 4") == "4"
    assert subjects(outcome="REFUSED") == "2"
    assert subjects(outcome="DONE") == "4310"
    assert subjects(since=moments[3]) == "43"
    assert subjects(until=moments[3]) == "210"
    assert subjects(account=(supplier.code, "0")) == ""


def _read_one_by_one(session: Session, wanted: TrailFilter, count: int) -> list[dict[str, Any]]:
    """Read pages of one entry each. There are no more than `count`."""
    cursor, found = None, []
    for _ in range(count):
        (entry,), cursor = read_trail(session, wanted, limit=1, cursor=cursor)
        found.append(entry)
    assert cursor is None
    return found


def test_rows_of_the_same_moment_are_on_one_page_each(supplier: SupplierClient) -> None:
    accounts = supplier.accounts(4)
    for account in accounts:
        supplier.stage(account)
    with supplier.Session.begin() as session:
        session.execute(update(AccountImportProcess).values(staged_at=func.now()))
        found = _read_one_by_one(session, TrailFilter(action="account.staged"), 4)
    numbers = [f"{supplier.code} {it['external_account_number']}" for it in accounts]
    assert sorted(it["subject"] for it in found) == sorted(numbers)
