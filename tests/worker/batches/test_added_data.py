"""Batches of notes, transactions, and statements, and lines that wait."""

from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select, update

from migration_service.models import (
    Account,
    Ledger,
    Transaction,
)
from migration_service.services.batches.intake import upload as batch_upload
from support.batch_client import BatchClient, counts

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
