"""Batches of notes, transactions, and statements, and lines that wait."""

from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select

from migration_service.models import (
    Account,
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
