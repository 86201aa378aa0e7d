"""The whole audit: the rows that requests write tell who wrote them, and each filter selects its entries."""

from typing import Any
from unittest.mock import patch
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import models
from migration_service.db.base import new_id
from migration_service.db.sql import begin
from migration_service.errors import AccountFailedValidationError
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.api_keys import find_prefix
from migration_service.services.audit import trail
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.processing.attempts import withdraw_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient

Told = dict[str, dict[str, Any]]


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
