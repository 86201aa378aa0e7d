"""What each kind of added data finds wrong with a line, and what it makes of faulty ones."""

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import Transaction
from support.factories import Customer
from unit.services.batches.batch_rows import (
    codes_of,
    line_of,
    lines_of,
    make_chunk,
    payload_of,
    warnings_of,
    work,
)

_ADDED: tuple[str, list[Any]] = ("ADDED", [])
_TRANSACTION = {
    "transaction_date": "2026-01-10",
    "type": "PAYMENT",
    "reference": "",
    "payment_type": "DIRECT_CREDIT",
}
_STATEMENT = {
    "bill_period_from_date": "2025-08-01",
    "bill_period_to_date": "2025-08-31",
    "issued_date": "2025-09-01",
    "number": "N",
    "gross_amount": 1,
}


@pytest.mark.parametrize(
    ("kind", "sound", "faulty", "error", "warning"),
    [
        (
            "notes",
            {"notes": [{"body": "x", "colour": "red"}]},
            {"notes": [{"body": 5, "colour": "red"}]},
            ("invalid", "notes.0.body"),
            "notes.0.colour",
        ),
        (
            "statements",
            {"statements": [_STATEMENT | {"statement_id": "S", "colour": "red"}]},
            {"statements": [_STATEMENT | {"colour": "red"}]},
            ("required", "statements.0.statement_id"),
            "statements.0.colour",
        ),
        (
            "transactions",
            {"transactions": [_TRANSACTION | {"transaction_id": "T", "amount": 1, "colour": "red"}]},
            {"transactions": [_TRANSACTION | {"transaction_id": "T", "amount": "much", "colour": "red"}]},
            ("invalid", "transactions.0.amount"),
            "transactions.0.colour",
        ),
        (
            "payment-instructions",
            {"vendor": "V", "reference": "r", "type": "CARD"},
            {"vendor": "V", "reference": "r", "type": 5},
            ("invalid", "type"),
            None,
        ),
    ],
)
@pytest.mark.parametrize("profile", ["lenient", "strict"])
def test_each_kind_has_the_schema_and_the_profile_of_its_endpoint(
    session: Session,
    customer: Customer,
    *,
    kind: str,
    profile: str,
    sound: dict[str, Any],
    faulty: dict[str, Any],
    error: tuple[str, str],
    warning: str | None,
) -> None:
    lines = [line_of(customer, "a", **sound), line_of(customer, "a", **faulty)]
    key = make_chunk(session, customer, lines, kind=kind, mode="validate", profile=profile)
    assert work(session, key, 2) == 0
    unknown = [("unknown_field", warning)] if warning else []
    if profile == "strict":
        assert codes_of(session, key) == [
            ("FAILED", unknown) if warning else ("VALID", []),
            ("FAILED", [error, *unknown]),
        ]
        assert warnings_of(session, key) == [[], []]
    else:
        assert codes_of(session, key) == [("VALID", []), ("FAILED", [error])]
        assert warnings_of(session, key)[0] == unknown


@pytest.mark.parametrize(
    ("kind", "items"),
    [
        ("notes", [{"body": "x"}, {"body": "y"}]),
        (
            "statements",
            [_STATEMENT | {"statement_id": "S"}, _STATEMENT | {"statement_id": "U", "number": "M"}],
        ),
        ("transactions", [_TRANSACTION | {"transaction_id": it, "amount": "1.00"} for it in ("T", "U")]),
    ],
)
def test_an_item_that_is_in_its_line_twice_is_not_called_one_of_the_account(
    session: Session, customer: Customer, kind: str, items: list[dict[str, Any]]
) -> None:
    one, other = items
    work(session, make_chunk(session, customer, [payload_of(customer, "a")]), 1)
    lines = [line_of(customer, "a", **{kind: it}) for it in ([one], [one, other, other])]
    key = make_chunk(session, customer, lines, kind=kind)
    assert work(session, key, 2) == 0
    assert codes_of(session, key) == [_ADDED, _ADDED]
    assert [(it["attr"], it["detail"]) for it in lines_of(session, key)[1].warnings or []] == [
        (f"{kind}.0", "This item already exists on the account."),
        (f"{kind}.2", "An earlier item of this line is the same. It was added once."),
    ]


def test_faulty_transactions_say_everything_that_is_wrong_with_them(
    session: Session, customer: Customer
) -> None:
    work(session, make_chunk(session, customer, [payload_of(customer, "a")]), 1)

    def line(*amounts: tuple[str, Any], number: str = "a") -> dict[str, Any]:
        transactions = [_TRANSACTION | {"transaction_id": id_, "amount": it} for id_, it in amounts]
        return line_of(customer, number, transactions=transactions)

    lines = [
        line(("T", "1.00")),
        line(("T", "2.00"), ("U", "much")),
        line(("T", "1.00"), ("V", "3.00")),
        line(("W", "much"), number="nobody"),
    ]
    key = make_chunk(session, customer, lines, kind="transactions")
    assert work(session, key, 4) == 0
    assert codes_of(session, key) == [
        _ADDED,
        (
            "FAILED",
            [
                ("transaction_id_already_used", "transactions.0.transaction_id"),
                ("invalid", "transactions.1.amount"),
            ],
        ),
        _ADDED,
        ("FAILED", [("invalid", "transactions.0.amount")]),
    ]
    assert warnings_of(session, key) == [[], [], [("already_added", "transactions.0")], []]
    added = select(Transaction.transaction_id).where(Transaction.period == "ADDED").order_by(Transaction.id)
    assert session.scalars(added).all() == ["T", "V"]
