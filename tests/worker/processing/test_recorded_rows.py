"""The rows that processing writes, for single requests and for batches: who asked for what.

Each test has three teams and three keys, so that a row with the wrong one is noticed.
"""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select

from migration_payloads.files.totals import add_up
from migration_service import models
from migration_service.db.base import Base
from migration_service.services.access.api_keys import find_prefix, issue_api_key
from migration_service.services.batches.intake.upload import validated_under
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.setup.teams import create_operations_team
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, ndjson
from support.factories import json_of
from support.supplier_client import SupplierClient


@dataclass(frozen=True, slots=True)
class Choice:
    """A team and a key of an organisation that has three of each."""

    team: str
    team_id: int
    key_id: int
    token: str

    def headers(self, request_id: str) -> dict[str, str]:
        return {"Authorization": f"Token {self.token}", "X-Request-ID": request_id}


@pytest.fixture
def choice(supplier: SupplierClient) -> Choice:
    """Return the second of three teams and keys, which is neither the oldest nor the newest."""
    team = f"{supplier.team} too"
    with supplier.Session.begin() as session:
        keys = []
        for name in (team, f"{supplier.team} as well"):
            create_operations_team(session, name)
            keys.append(issue_api_key(session, organisation_name=supplier.organisation))
    key = keys[0]
    supplier.api_key = key
    with supplier.Session() as session:
        team_id = session.scalar(select(models.OperationsTeam.id).where(models.OperationsTeam.name == team))
        key_id = session.scalar(select(models.ApiKey.id).where(models.ApiKey.prefix == find_prefix(key)))
    assert team_id
    assert key_id
    return Choice(team, team_id, key_id, supplier.obtain_token())


def columns(row: Base) -> dict[str, Any]:
    return {column.key: getattr(row, column.key) for column in row.__mapper__.column_attrs}


def taken(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row.pop(name) for name in names)


def _rows(supplier: SupplierClient, number: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    with supplier.Session() as session:
        process = session.scalars(
            select(models.AccountImportProcess).where(supplier.process_of(number))
        ).one()
        attempt = session.scalars(
            select(models.Attempt).where(models.Attempt.account_import_process_id == process.id)
        ).one()
        account = session.scalars(
            select(models.Account).where(models.Account.account_import_process_id == process.id)
        ).one()
        return columns(process), columns(attempt), columns(account)


def _check_account(supplier: SupplierClient, payload: dict[str, Any], choice: Choice) -> dict[str, Any]:
    """Check the account and the process, and return the row of the attempt."""
    process, attempt, account = _rows(supplier, payload["external_account_number"])
    account_id, created_at, number = taken(account, "id", "created_at", "service_account_number")
    assert account_id
    assert account == {
        "erased_at": None,
        "live_at": None,
        "live_by": None,
        "account_import_process_id": process["id"],
        "import_supplier_id": supplier.known().id,
        "operations_team_id": choice.team_id,
        "external_account_number": payload["external_account_number"],
        "unknown_occupier": str(payload["unknown_occupier"]).lower() == "true",
        **{name: payload.get(name) for name in account if name.startswith("billing_")},
    }
    assert (process["state"], process["attempt_id"]) == ("IMPORTED", None)
    assert (process["service_account_number"], process["account_created_at"]) == (number, created_at)
    assert (attempt["account_import_process_id"], attempt["service_account_number"]) == (
        process["id"],
        number,
    )
    return attempt


_DRY_RUN = "Account would successfully import. Rolled back due to Dry Run."


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_single_request_records_its_team_key_and_request(
    supplier: SupplierClient, choice: Choice, worker_resources: WorkerResources, dry_run: bool
) -> None:
    (payload,) = supplier.accounts()
    assert supplier.stage(payload).status_code == 201
    number = payload["external_account_number"]
    body = {
        "external_account_number": number,
        "import_supplier_code": supplier.code,
        "operations_team_name": choice.team,
        "dry_run": dry_run,
    }
    headers = choice.headers("request-of-this-test") | {"Prefer": "respond-async"}
    assert supplier.post("/account-import-process/process/", body, headers=headers).status_code == 202
    attempt_id = supplier.current_attempt(number)
    assert perform_attempt(worker_resources.Session, attempt_id)
    if not dry_run:
        _check_account(supplier, payload, choice)
    with supplier.Session() as session:
        attempt = columns(session.get_one(models.Attempt, attempt_id))
    created_at, finished_at = taken(attempt, "created_at", "finished_at")
    assert created_at < finished_at
    taken(attempt, "account_import_process_id", *([] if dry_run else ["service_account_number"]))
    expected = {
        "id": attempt_id,
        "operations_team_id": choice.team_id,
        "api_key_id": choice.key_id,
        "dry_run": dry_run,
        "request_id": "request-of-this-test",
        "address": "127.0.0.1",
        "outcome": "SUCCEEDED",
        "error_code": None,
        "error_detail": None,
        "errors": None,
    }
    if dry_run:
        expected |= {
            "outcome": "DRY_RUN_SUCCEEDED",
            "service_account_number": None,
            "error_code": "dry_run_succeeded",
            "error_detail": _DRY_RUN,
            "errors": [{"detail": _DRY_RUN, "code": "dry_run_succeeded", "attr": None}],
        }
    assert attempt == expected


def test_a_batch_records_the_team_and_the_key_that_started_it(batches: BatchClient, choice: Choice) -> None:
    supplier = batches.supplier
    payloads = supplier.accounts(2)
    answer = batches.post(
        ndjson(payloads),
        headers=choice.headers("the-upload"),
        operations_team_name=choice.team,
        name="Book of the north",
        file_name="north.ndjson",
        profile="strict",
    )
    batch_id = str(json_of(answer)["batch_id"])
    batches.work()
    batches.get(batch_id)
    for payload in payloads:
        attempt = _check_account(supplier, payload, choice)
        attempt_id, created_at, finished_at = taken(attempt, "id", "created_at", "finished_at")
        assert isinstance(attempt_id, UUID)
        assert isinstance(created_at, datetime)
        assert isinstance(finished_at, datetime)
        taken(attempt, "account_import_process_id", "service_account_number")
        assert attempt == {
            "operations_team_id": choice.team_id,
            "api_key_id": choice.key_id,
            "dry_run": False,
            "request_id": f"batch {batch_id}",
            "address": "127.0.0.1",
            "outcome": "SUCCEEDED",
            "error_code": None,
            "error_detail": None,
            "errors": None,
        }
    _check_batch(supplier, UUID(batch_id), choice, ndjson(payloads))


def _check_batch(supplier: SupplierClient, batch_id: UUID, choice: Choice, file: bytes) -> None:
    with supplier.Session() as session:
        batch = columns(session.get_one(models.Batch, batch_id))
    assert batch["created_at"] <= batch["runs_since"] < batch["started_at"] < batch["finished_at"]
    expected = {
        "organisation_id": supplier.organisation_id(),
        "import_supplier_id": supplier.known().id,
        "operations_team_id": choice.team_id,
        "api_key_id": choice.key_id,
        "request_id": "the-upload",
        "address": "127.0.0.1",
        "name": "Book of the north",
        "file_name": "north.ndjson",
        "file_sha256": sha256(file).digest(),
        "file_bytes": len(file),
        "file_totals": add_up(file.splitlines()).to_dict(),
        "profile": "strict",
        "validated_under": validated_under("strict", supplier.known().profile),
        "state": "COMPLETED",
        "lines": 2,
    }
    assert batch.items() >= expected.items()
