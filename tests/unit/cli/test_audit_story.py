"""The audit names the person who ordered a batch or an undo, also on each row that it wrote."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import Result

from migration_service.config import system_user
from migration_service.services.access.api_keys import revoke_api_key
from migration_service.services.audit.trail import TrailFilter, stream_trail
from support.batch_client import BatchClient, ndjson
from support.commands import Run
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient


@pytest.fixture
def run(run: Run) -> Run:
    """Run a command that succeeds."""

    def succeed(*arguments: str, given: bytes | str | None = None) -> Result:
        result = run(*arguments, given=given)
        assert result.exit_code == 0, result.output
        return result

    return succeed


def _story(supplier: SupplierClient, number: str) -> list[tuple[str, str, str]]:
    """What the audit tells of an account: the action, and who acted. Oldest first."""
    with supplier.Session.begin() as session:
        told = [*stream_trail(session, TrailFilter(account=(supplier.code, number)))]
    return [(it["action"], it["actor_kind"], it["actor"]) for it in reversed(told)]


def _of_batch(supplier: SupplierClient, batch_id: str) -> list[tuple[str, str, str]]:
    with supplier.Session.begin() as session:
        told = [*stream_trail(session, TrailFilter(organisation=supplier.organisation))]
    return [(it["action"], it["actor_kind"], it["actor"]) for it in told if it["subject"] == batch_id]


def _person(*actions: str) -> list[tuple[str, str, str]]:
    return [(action, "system_user", system_user()) for action in actions]


def _start(run: Run, batches: BatchClient, accounts: Sequence[Any]) -> str:
    supplier = batches.supplier
    given = ("--supplier", supplier.code, "--team", supplier.team, "--mode", "import", "--json")
    return str(json.loads(run("batches", "start", "-", *given, given=ndjson(accounts)).stdout)["batch_id"])


def test_the_rows_of_a_batch_and_of_an_undo_name_the_person_who_ordered_them(
    run: Run, batches: BatchClient
) -> None:
    supplier, (account,) = batches.supplier, batches.supplier.accounts(1)
    number = account["external_account_number"]
    batch_id = _start(run, batches, [account])
    batches.work()
    named = ("undo", "start", supplier.code, number, "--reason", "A test.", "--yes", "--json")
    UndoClient(supplier).work(json.loads(run(*named).stdout)["undo_id"])
    assert _story(supplier, number) == _person("account.staged", "account.processed", "account.reverted")
    assert set(_of_batch(supplier, batch_id)) == set(_person("batch.started", "batch.ordered"))


def test_the_rows_of_a_batch_whose_key_was_revoked_name_the_person_who_took_it_over(
    run: Run, batches: BatchClient, supplier: SupplierClient
) -> None:
    account, *_ = supplier.accounts(1)
    batch_id = batches.start([account], "import")
    run("batches", "pause", batch_id)
    with supplier.Session.begin() as session:
        revoke_api_key(session, supplier.api_key)
    run("batches", "resume", batch_id)
    batches.work()
    number = account["external_account_number"]
    assert _story(supplier, number) == _person("account.staged", "account.processed")
    assert _person("batch.taken_over")[0] in _of_batch(supplier, batch_id)
