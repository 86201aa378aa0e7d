"""Batches of notes, transactions, and statements, and lines that wait."""

from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import (
    Account,
    Batch,
    BatchChunk,
    BatchLine,
    ImportSupplier,
    Ledger,
    Transaction,
)
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.added_data import deferral
from migration_service.services.processing.execution import perform_attempt
from migration_service.states import LineStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.supplier_client import SupplierClient

pytestmark = pytest.mark.usefixtures("neighbour")


@pytest.fixture
def numbers(batches: BatchClient) -> list[str]:
    """The numbers of three accounts that exist."""
    accounts = batches.supplier.accounts(3)
    report = batches.run(accounts)
    assert counts(report) == {"IMPORTED": 3}
    return [account["external_account_number"] for account in accounts]


def note(batches: BatchClient, number: str, *bodies: str, **more: Any) -> dict[str, Any]:
    return batches.line(number, notes=[{"body": body} for body in bodies], **more)


def payment(batches: BatchClient, number: str, *ids: str, amount: str = "10.00") -> dict[str, Any]:
    return batches.line(
        number,
        transactions=[
            {
                "transaction_id": id_,
                "transaction_date": "2026-10-01",
                "amount": amount,
                "type": "PAYMENT",
                "reference": "",
                "payment_type": "DIRECT_CREDIT",
            }
            for id_ in ids
        ],
    )


def _account(batches: BatchClient, number: str) -> Account:
    with batches.supplier.Session() as session:
        account = session.scalars(select(Account).where(Account.external_account_number == number)).all()
    return account[-1]


def _statuses(batches: BatchClient, batch_id: str) -> list[str]:
    return [line["status"] for line in batches.results(batch_id)]


def _codes(batches: BatchClient, batch_id: str) -> list[list[tuple[str, str | None]]]:
    return [[(it["code"], it["attr"]) for it in line["errors"]] for line in batches.results(batch_id)]


def test_a_batch_has_the_outcomes_of_the_single_endpoint(batches: BatchClient, numbers: list[str]) -> None:
    """Every fault of a line: the codes and paths that the endpoint answers with for the same body."""
    number = numbers[0]
    faulty = payment(batches, number, "F1", "F2")
    faulty["transactions"][0]["amount"] = "a lot"
    faulty["transactions"][1]["type"] = "GIFT"
    reused = payment(batches, number, "F3", amount="11.00")
    unknown = payment(batches, number, "F4") | {"dryrun": True}
    batches.run([payment(batches, number, "F3")], kind="transactions")
    lines = [faulty, reused, unknown]
    report = batches.run(lines, kind="transactions")
    assert counts(report) == {"FAILED": 3}
    for line, outcome in zip(lines, batches.results(report["batch_id"]), strict=True):
        answer = batches.supplier.post("/transactions/create/", line)
        assert answer.status_code == 400
        assert _without_values(outcome["errors"]) == answer.json["errors"]  # type: ignore[index]


def _without_values(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what a line found as the single endpoint says it, which does not repeat the values."""
    return [{name: item[name] for name in ("detail", "code", "attr")} for item in findings]


def test_the_arguments_of_the_endpoint_apply_to_every_line(batches: BatchClient, numbers: list[str]) -> None:
    old = payment(batches, numbers[0], "O1")
    old["transactions"][0]["transaction_date"] = "2001-01-01"
    with batches.supplier.Session.begin() as session:
        session.execute(update(Ledger).values(last_settlement_closing_date="2026-01-31"))
    report = batches.run([old], kind="transactions", force_add_to_current_statement="false")
    assert _codes(batches, report["batch_id"]) == [
        [("transaction_outside_open_period", "transactions.0.transaction_date")]
    ]
    assert report["options"] == {"force_add_to_current_statement": False}
    report = batches.run([old], kind="transactions")
    assert counts(report) == {"ADDED": 1}
    repeated = batches.run([old], kind="transactions", check_previously_added="false")
    assert _codes(batches, repeated["batch_id"]) == [
        [("transaction_id_already_used", "transactions.0.transaction_id")]
    ]


def test_the_order_within_an_account_is_that_of_the_file(batches: BatchClient, numbers: list[str]) -> None:
    """The first line of an id wins, wherever the lines of the account are, and in pieces of any size."""
    lines = []
    for i in range(12):
        for number in numbers:
            lines.append(payment(batches, number, f"P{i}", amount=f"{i + 1}.00"))
            lines.append(payment(batches, number, f"P{i}", amount="999.00"))
    with (
        patch.object(batch_upload, "ADDED_CHUNK_LINES", 5),
        patch("migration_service.services.batches.work.added_data.lines.PIECE_LINES", 7),
    ):
        report = batches.run(lines, kind="transactions")
    assert counts(report) == {"ADDED": 36, "FAILED": 36}
    assert _statuses(batches, report["batch_id"]) == ["ADDED", "FAILED"] * 36
    with batches.supplier.Session() as session:
        for number in numbers:
            rows = session.execute(
                select(Transaction.transaction_id, Transaction.amount)
                .where(Transaction.account_pk == _account(batches, number).id, Transaction.period == "ADDED")
                .order_by(Transaction.position)
            ).all()
            assert [tuple(row) for row in rows] == [(f"P{i}", i + 1) for i in range(12)]


def test_lines_wait_for_an_import_batch_and_go_on_when_it_ends(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(2)
    present, failing = (account["external_account_number"] for account in accounts)
    accounts[1]["customers"] = "nobody"
    imported = batches.start(accounts)
    assert batches.change(imported, "pause").status_code == 200
    lines = [note(batches, present, "a"), note(batches, "nobody", "x"), note(batches, failing, "b")]
    report = batches.run([*lines, note(batches, present, "c")], kind="notes")
    assert _statuses(batches, report["batch_id"]) == ["DEFERRED", "FAILED", "DEFERRED", "DEFERRED"]
    assert batches.change(imported, "resume").status_code == 200
    batches.work()  # the end of the import batch is enough
    assert _statuses(batches, report["batch_id"]) == ["ADDED", "FAILED", "FAILED", "ADDED"]
    assert _codes(batches, report["batch_id"])[2] == [("account_not_found", "external_account_number")]


_A_WEEK = 7 * 24 * 3600.0


@pytest.fixture
def neighbour(app: Flask, sessions: sessionmaker[Session], worker_resources: WorkerResources) -> BatchClient:
    return BatchClient(SupplierClient.create(app, sessions), worker_resources)


def _supplier_id(batches: BatchClient) -> int:
    with batches.supplier.Session() as session:
        found = session.scalar(select(ImportSupplier.id).where(ImportSupplier.code == batches.supplier.code))
    assert found
    return found


def _coming(batches: BatchClient, *numbers: str) -> set[str]:
    with batches.supplier.Session() as session:
        return deferral.find_coming(session, _supplier_id(batches), numbers)


def _sent(batches: BatchClient, number: str) -> dict[str, Any]:
    (account,) = batches.supplier.accounts()
    return account | {"external_account_number": number}


def _begin(batches: BatchClient, number: str) -> None:
    assert batches.supplier.stage(_sent(batches, number)).status_code in (200, 201)
    assert batches.supplier.process(number).status_code == 202


def _end(batches: BatchClient, number: str) -> None:
    assert perform_attempt(batches.supplier.Session, batches.supplier.current_attempt(number))


def _paused(batches: BatchClient, mode: str = "import", *numbers: str) -> str:
    batch_id = batches.start([_sent(batches, number) for number in numbers], mode)
    assert batches.change(batch_id, "pause").status_code == 200
    return batch_id


def _defer(batches: BatchClient, *numbers: str) -> UUID:
    """Run a batch with a note for each of these accounts, whose lines are deferred. Return its id."""
    lines = [batches.line(number, notes=[{"body": "a"}]) for number in numbers]
    report = batches.run(lines, kind="notes")
    assert report["counts"]["DEFERRED"] == len(numbers)
    return UUID(report["batch_id"])


def _chunk(session: Session, batch_id: UUID) -> BatchChunk:
    return session.scalars(select(BatchChunk).where(BatchChunk.batch_id == batch_id)).one()


def _wake(batches: BatchClient, batch_id: UUID, seconds: float = _A_WEEK) -> deferral.Woken:
    with batches.supplier.Session.begin() as session:
        return deferral.wake_lines(session, _supplier_id(batches), _chunk(session, batch_id), seconds)


def _lines(batches: BatchClient, batch_id: UUID) -> dict[str, tuple[str, bool]]:
    """Return the status of each line, and whether it has warnings, by the number of its account."""
    with batches.supplier.Session() as session:
        rows = session.scalars(select(BatchLine).where(BatchLine.batch_id == batch_id))
        return {str(it.external_account_number): (it.status, bool(it.warnings)) for it in rows}


def test_an_account_whose_import_has_begun_is_still_to_come_until_it_exists(batches: BatchClient) -> None:
    _begin(batches, "A")
    _begin(batches, "B")
    assert batches.supplier.stage(_sent(batches, "staged only")).status_code == 201
    assert _coming(batches, "A", "staged only", "nobody") == {"A"}
    _defer(batches, "A")  # which is added data for it, and no import
    _end(batches, "A")
    assert _coming(batches, "A", "B") == {"B"}


def test_an_account_on_a_pending_line_of_an_import_batch_is_still_to_come_unless_it_exists(
    batches: BatchClient,
) -> None:
    _paused(batches, "import", "A", "B")
    assert _coming(batches, "A", "nobody") == {"A"}
    _begin(batches, "A")
    _end(batches, "A")
    assert _coming(batches, "A", "B") == {"B"}


@pytest.mark.parametrize(
    ("mode", "change"),
    [
        pytest.param("validate", None, id="only checked"),
        pytest.param("dry-run", None, id="only tried"),
        pytest.param("import", update(BatchLine).values(status=LineStatus.FAILED), id="failed"),
        pytest.param("import", update(BatchLine).values(chunk_line=1), id="of another kind"),
        pytest.param("import", update(Batch).values(finished_at=func.now()), id="over"),
    ],
)
def test_an_account_on_any_other_line_is_not_to_come(batches: BatchClient, mode: str, change: Any) -> None:
    _paused(batches, mode, "A")
    if change is not None:
        with batches.supplier.Session.begin() as session:
            session.execute(change)
    assert _coming(batches, "A") == set()


def test_an_account_that_another_supplier_imports_is_not_to_come(
    batches: BatchClient, neighbour: BatchClient
) -> None:
    _begin(neighbour, "A")
    _paused(neighbour, "import", "B")
    _paused(batches, "import", "C")
    assert _coming(batches, "A", "B") == set()
    assert _coming(neighbour, "A", "B", "C") == {"A", "B"}


def test_lines_are_pending_again_once_their_account_is_no_longer_to_come(batches: BatchClient) -> None:
    for number in ("A", "B"):
        _begin(batches, number)
    batch_id, other = _defer(batches, "A", "B"), _defer(batches, "A")
    assert _wake(batches, batch_id) == deferral.Woken(0, is_late=False)
    _end(batches, "A")
    assert _wake(batches, batch_id) == deferral.Woken(1, is_late=False)
    assert _lines(batches, batch_id) == {"A": ("PENDING", False), "B": ("DEFERRED", True)}
    assert _lines(batches, other) == {"A": ("DEFERRED", True)}


def test_all_lines_of_the_chunk_are_pending_again_once_the_time_is_up(batches: BatchClient) -> None:
    for number in ("A", "B"):
        _begin(batches, number)
    batch_id = _defer(batches, "A", "B")
    with batches.supplier.Session.begin() as session:
        session.execute(
            update(BatchChunk).values(
                deferred_since=BatchChunk.deferred_since - func.make_interval(0, 0, 0, 0, 0, 0, 60)
            )
        )
        # As if it belonged to another chunk.
        session.execute(update(BatchLine).where(BatchLine.line_number == 2).values(chunk_line=2))
    assert _wake(batches, batch_id, 90) == deferral.Woken(0, is_late=False)
    assert _wake(batches, batch_id, 60) == deferral.Woken(1, is_late=True)
    assert _lines(batches, batch_id) == {"A": ("PENDING", False), "B": ("DEFERRED", True)}


def test_accounts_with_deferred_lines_are_those_of_the_chunk(batches: BatchClient) -> None:
    for number in ("A", "B", "C", "D"):
        _begin(batches, number)
    batch_id, _ = _defer(batches, "A", "B", "C"), _defer(batches, "D")
    with batches.supplier.Session.begin() as session:
        of_b, of_c = (BatchLine.external_account_number == number for number in "BC")
        session.execute(update(BatchLine).where(of_b).values(chunk_line=2))
        session.execute(update(BatchLine).where(of_c).values(status=LineStatus.ADDED))
        chunk = _chunk(session, batch_id)
        assert deferral.find_deferred(session, chunk, ["A", "B", "C", "D"]) == {"A"}
        assert deferral.find_deferred(session, chunk, ["B", "C", "D"]) == set()
