"""The whole audit: the rows that requests write tell who wrote them, and each filter selects its entries."""

from datetime import datetime
from typing import Any
from unittest.mock import patch
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.coded import example_of
from migration_service import models
from migration_service.db.base import new_id
from migration_service.db.sql import begin
from migration_service.errors import AccountFailedValidationError
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.schemas import added_data
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.audit import trail
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.processing.attempts import withdraw_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import OBTAIN, json_of
from support.imported_account import LEDGER, ImportedAccount
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient
from support.vendor_servers import make_sandbox_vendor

Told = dict[str, dict[str, Any]]

TRANSACTION = example_of(added_data.TransactionsRequestSchema)["transactions"][0]
STATEMENT = example_of(added_data.StatementsRequestSchema)["statements"][0]


def _told(sessions: sessionmaker[Session], **wanted: Any) -> list[dict[str, Any]]:
    with sessions.begin() as session:
        return list(trail.stream_trail(session, trail.TrailFilter(**wanted)))


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
    answer = supplier.process(number, headers={"X-Request-ID": request_id}, **fields)
    assert answer.status_code == 202, answer.text
    return supplier.current_attempt(number)


def test_every_row_of_an_account_tells_who_wrote_it_when_and_with_which_result(
    supplier: SupplierClient, another: SupplierClient, worker_resources: WorkerResources
) -> None:
    sessions = supplier.Session
    payload = supplier.accounts()[0]
    number = str(payload["external_account_number"])
    another.stage(another.accounts()[0] | {"external_account_number": number})
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
        staged_at = select(models.AccountImportProcess.staged_at).where(supplier.process_of(number))
        moments = {"staging": session.scalar(staged_at)} | {
            request_id: session.get_one(models.Attempt, id_).created_at
            for request_id, id_ in attempts.items()
        }
    assert {it: entry.pop("at") for it, entry in told.items()} == moments
    assert told == {it["request_id"]: it for it in expected}


def test_added_data_tells_who_added_it_and_what_came_with_the_account_does_not(
    supplier: SupplierClient, worker_resources: WorkerResources, another: SupplierClient, sandbox_url: str
) -> None:
    came_with_it: Any = LEDGER | {"transactions_in_open_settlement_period": [TRANSACTION]}
    parts = {"ledgers": [came_with_it], "statements": [STATEMENT]}
    account, theirs = (ImportedAccount.create(it, worker_resources, **parts) for it in (supplier, another))
    sessions, organisation = supplier.Session, supplier.organisation
    before = len(_told(sessions, organisation=organisation))
    theirs.post_notes({"body": "theirs"})
    vendor = make_sandbox_vendor(sessions, sandbox_url)
    instruction = {"vendor": vendor, "reference": "card-ok-1", "type": "CARD"}
    transaction, statement = TRANSACTION | {"transaction_id": "T-2"}, STATEMENT | {"statement_id": "S-2"}
    for path, request_id, added in (
        ("/notes/create/", "note", {"notes": [{"body": "a"}]}),
        ("/transactions/create/", "transaction", {"transactions": [transaction]}),
        ("/historical-statements/create/", "statement", {"statements": [statement]}),
        ("/payment-instruction/create/", "instruction", instruction),
    ):
        _post(supplier, path, request_id, {**account.pair, **added})
    told = _told(sessions, organisation=organisation)
    assert len(told) == before + 4
    by_request = {it["request_id"]: it for it in told[:4]}
    assert all(isinstance(entry.pop("at"), datetime) for entry in by_request.values())
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
            select(models.TokenSession).where(models.TokenSession.request_id == "session")
        ).one()
        line = select(models.UndoLine.finished_at).where(models.UndoLine.position == 1)
        assert batch_entry.pop("at") == session.get_one(models.Batch, json_of(batch)["batch_id"]).created_at
        assert session_entry.pop("at") == token_session.created_at
        assert reverted.pop("at") == session.scalar(line)
    of_batch = {"subject_kind": "batch", "subject": json_of(batch)["batch_id"]}
    assert batch_entry == _expected(supplier, "batch", "batch.started", **of_batch)
    of_session = {"subject_kind": "session", "subject": str(token_session.id)}
    assert session_entry == _expected(supplier, "session", "session.began", **of_session)
    subject = f"{supplier.code} {numbers[0]}"
    assert reverted == _expected(supplier, "undo", "account.reverted", subject=subject)


def _record_as(sessions: sessionmaker[Session], *acts: tuple[AuditAction, str, str, str]) -> None:
    """Let operators act: each with the action, the kind and the id of its subject, and the operator."""
    for action, kind, subject, actor in acts:
        with acting_as(Origin(kind=ActorKind.OPERATOR, actor=actor)), sessions.begin() as session:
            record(session, action, kind, subject)


def _actors_of_stagings(supplier: SupplierClient, requests: list[str]) -> list[tuple[str, str | None]]:
    """Stage an account for each request, without a key. Return who is said to have staged it."""
    for account, request_id in zip(supplier.accounts(len(requests)), requests, strict=True):
        supplier.stage(account)
        with supplier.Session.begin() as session:
            row = update(models.AccountImportProcess).where(
                supplier.process_of(account["external_account_number"])
            )
            session.execute(row.values(staged_by_api_key_id=None, staged_request_id=request_id))
    told = _by_request(supplier.Session, action="account.staged")
    return [(told[it]["actor_kind"], told[it]["actor"]) for it in requests]


def test_a_row_without_a_key_was_written_by_the_service_unless_somebody_ordered_it(
    supplier: SupplierClient,
) -> None:
    _record_as(
        supplier.Session,
        (AuditAction.BATCH_ORDERED, "batch", "1", "anna"),
        (AuditAction.BATCH_ORDERED, "batch", "2", "anna"),
        (AuditAction.BATCH_TAKEN_OVER, "batch", "2", "berta"),
        (AuditAction.UNDO_STARTED, "undo", "3", "carla"),
        (AuditAction.BATCH_PAUSED, "batch", "4", "dora"),
    )
    requests = ["batch 1", "batch 2", "undo 3", "batch 4", "batch 5"]
    assert _actors_of_stagings(supplier, requests) == [
        ("operator", "anna"),
        ("operator", "berta"),
        ("operator", "carla"),
        ("service", None),
        ("service", None),
    ]


def test_the_rows_of_a_wave_name_who_made_its_plan_until_somebody_takes_its_batch_over(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    sessions = supplier.Session
    batches = BatchClient(supplier, worker_resources)
    batch_ids = [batches.start([{}], "validate") for _ in range(4)]
    with sessions.begin() as session:
        known = session.scalars(
            select(models.ImportSupplier).where(models.ImportSupplier.code == supplier.code)
        ).one()
        team_id = session.scalars(select(models.OperationsTeam.id)).first() or 0
        fields = {
            "organisation_id": known.organisation_id,
            "import_supplier_id": known.id,
            "operations_team_id": team_id,
            "seed": 1,
            "continue_if_clean": False,
        }
        plans = [models.WavePlan(id=new_id(), finished_at=end, **fields) for end in (None, func.now())]
        session.add_all(plans)
        session.flush()
        waves = [(0, 1), (0, 2), (1, 1), (0, 3)]
        session.add_all(
            models.Wave(plan_id=plans[plan].id, number=number, batch_id=UUID(batch_id))
            for (plan, number), batch_id in zip(waves, batch_ids, strict=True)
        )
        subjects = [str(it.id) for it in plans]
    _record_as(
        sessions,
        (AuditAction.WAVE_PLAN_CREATED, "wave_plan", subjects[0], "anna"),
        (AuditAction.WAVE_PLAN_CREATED, "wave_plan", subjects[1], "berta"),
        (AuditAction.WAVE_QUEUED, "wave_plan", subjects[0], "carla"),
        (AuditAction.BATCH_TAKEN_OVER, "batch", batch_ids[1], "dora"),
    )
    actors = _actors_of_stagings(supplier, [f"batch {it}" for it in batch_ids])
    assert actors == [("operator", it) for it in ("anna", "dora", "berta", "anna")]


def test_an_entry_about_an_account_names_it_while_it_exists(supplier: SupplierClient) -> None:
    (payload,) = supplier.accounts()
    supplier.stage(payload)
    number = payload["external_account_number"]
    with supplier.Session.begin() as session:
        process = session.scalars(
            select(models.AccountImportProcess).where(supplier.process_of(number))
        ).one()
        record(session, AuditAction.ACCOUNT_READ, "account", process.id)
        record(session, AuditAction.ACCOUNT_READ, "account", 0)
        record(session, AuditAction.BATCH_PAUSED, "batch", process.id)
    told = _told(supplier.Session, only_entries=True)[:3]
    assert {(it["subject_kind"], it["subject"]) for it in told} == {
        ("account", f"{supplier.code} {number}"),
        ("account", "0"),
        ("batch", str(process.id)),
    }


def test_each_filter_selects_the_entries_that_it_names(supplier: SupplierClient) -> None:
    with supplier.Session.begin() as session:
        for number, code in enumerate((None, "not_allowed", None)):
            entry = {"actor_kind": "operator", "subject_kind": "team", "subject": str(number), "code": code}
            entry |= {
                "actor": f"actor {number}",
                "request_id": f"request {number}",
                "action": f"did_{number}",
            }
            outcome = "REFUSED" if code else "DONE"
            owner = None if number else supplier.organisation_id()
            session.add(models.AuditEntry(**entry, outcome=outcome, organisation_id=owner))
            session.flush()
        moments = session.scalars(select(models.AuditEntry.at).order_by(models.AuditEntry.id)).all()[-3:]

    def subjects(**wanted: Any) -> str:
        told = _told(supplier.Session, only_entries=True, **wanted)
        return "".join(it["subject"] for it in told if it["action"].startswith("did_"))

    assert subjects() == "210"
    assert subjects(organisation=supplier.organisation) == "0"
    assert subjects(organisation_ids=[supplier.organisation_id()]) == "0"
    assert subjects(organisation_ids=[]) == ""
    assert subjects(actor="actor 2") == "2"
    assert subjects(action="did_1") == "1"
    assert subjects(request_id="request 2") == "2"
    assert subjects(outcome="REFUSED") == "1"
    assert subjects(since=moments[1]) == "21"
    assert subjects(until=moments[1]) == "0"
    assert subjects(account=(supplier.code, "0")) == ""


def test_rows_of_the_same_moment_are_on_one_page_each(supplier: SupplierClient) -> None:
    accounts = supplier.accounts(3)
    for account in accounts:
        supplier.stage(account)
    cursor, found, staged = None, [], trail.TrailFilter(action="account.staged")
    with supplier.Session.begin() as session:
        session.execute(update(models.AccountImportProcess).values(staged_at=func.now()))
        for _page in accounts:
            (entry,), cursor = trail.read_trail(session, staged, limit=1, cursor=cursor)
            found.append(entry["subject"])
    assert cursor is None
    assert sorted(found) == sorted(f"{supplier.code} {it['external_account_number']}" for it in accounts)
