"""Accounts are found by their numbers; what was added to one, its e-mails and its undos."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import null
from sqlalchemy.orm import Session

from migration_service import models
from migration_service.db.base import Base, new_id
from migration_service.services.reporting import timeline
from migration_service.services.reporting.search import find_accounts
from migration_service.services.reporting.timeline import Event, EventKind, list_events
from migration_service.services.setup.suppliers import KnownSupplier
from support.rows import add, make_account, make_process, make_supplier


@pytest.fixture
def found(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[Any]:
    """Insert accounts of three suppliers, and return those of the first two that have "wanted" anywhere."""
    foreign = make_supplier(session, "FOREIGN")
    made = []
    for supplier, number, service, ean in (
        (other, "wanted", "A-3", "other"),
        (known, "wanted", "A-1", "wanted"),
        (known, "by meter point", "A-2", "wanted"),
        (known, "by service number", "wanted", "other"),
        (known, "another", "A-4", "other"),
        (foreign, "wanted", "A-5", "wanted"),
    ):
        process = make_process(session, supplier, number, service_account_number=service)
        account = make_account(session, process)
        for position in range(2):
            address = add(session, models.SupplyAddress(account_pk=account.id, position=position))
            point = models.MeterPoint(supply_address_pk=address.id, position=0, ean=ean, supply_type="GAS")
            add(session, point)
        if supplier is not foreign and number != "another":
            made.append((supplier.code, number, service, "IMPORTED"))
    make_process(session, known, "staged", state="PENDING")
    return sorted(made, key=lambda it: it[:2])


def test_accounts_are_found_by_each_of_their_numbers(
    session: Session, known: KnownSupplier, other: KnownSupplier, found: list[Any]
) -> None:
    suppliers = [known.id, other.id]
    assert find_accounts(session, "wanted", import_supplier_ids=suppliers) == found
    assert len(found) == 4
    assert find_accounts(session, "wanted", import_supplier_ids=suppliers, limit=2) == found[:2]
    assert find_accounts(session, "wanted", import_supplier_ids=[other.id]) == found[3:]
    assert find_accounts(session, "wanted", import_supplier_ids=[]) == []
    staged = [("MINE", "staged", None, "PENDING")]
    assert find_accounts(session, "staged", import_supplier_ids=suppliers) == staged
    assert find_accounts(session, "\x00\u200b", import_supplier_ids=suppliers) == []


_DAY = date(2026, 1, 1)
_UNDO = new_id()


def _at(hour: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)


def _make_parts(session: Session, account: models.Account, vendor: int) -> list[Event]:
    """Insert what can happen to an account, and what is no event of it. Return its events."""
    ledger = add(session, models.Ledger(account_pk=account.id, position=0, ledger_code="A", ledger_balance=0))

    def note(at: Any, text: str) -> Base:
        values = {"documents": [], "is_pinned": False, "sameness_sha256": text.encode()}
        return models.Note(account_pk=account.id, body=text, created_at=_at(0), added_at=at, **values)

    def transaction(at: datetime, id_: str, period: str = "ADDED") -> Base:
        values = {"transaction_id": id_, "transaction_date": _DAY, "amount": 1, "type": "CHARGE"}
        keys = {"ledger_pk": ledger.id, "account_pk": account.id}
        return models.Transaction(position=0, period=period, created_at=at, **keys, **values)

    def statement(at: datetime, id_: str, origin: str = "ADDED") -> Base:
        days = dict.fromkeys(("issued_date", "bill_period_from_date", "bill_period_to_date"), _DAY)
        values = {"statement_id": id_, "number": id_, "gross_amount": 1, "created_at": at}
        return models.Statement(account_pk=account.id, position=0, origin=origin, **days, **values)

    def instruction(at: datetime, reference: str) -> Base:
        keys = {"account_pk": account.id, "payment_vendor_pk": vendor}
        return models.PaymentInstruction(reference=reference, type="CARD", details={}, created_at=at, **keys)

    def email(at: datetime, state: str, sent_at: datetime | None = None) -> Base:
        customer = add(session, models.Customer(account_pk=account.id, position=0))
        return models.CustomerEmail(
            organisation_id=1,
            import_supplier_id=1,
            customer_pk=customer.id,
            state=state,
            created_at=at,
            sent_at=sent_at,
        )

    def undo(at: datetime | None, outcome: str, position: int) -> Base:
        keys = {"undo_id": _UNDO, "account_import_process_id": account.account_import_process_id}
        number = {"service_account_number": "A-1", "position": 10 * account.id + position}
        return models.UndoLine(outcome=outcome, finished_at=at, **keys, **number)

    session.add_all(
        [
            *(note(_at(1), "a"), note(_at(1), "b"), note(_at(2), "c"), note(null(), "d")),
            *(transaction(_at(3), "a"), transaction(_at(3), "b"), transaction(_at(9), "c", "OPEN")),
            *(statement(_at(4), "a"), statement(_at(4), "b"), statement(_at(9), "c", "PAYLOAD")),
            *(instruction(_at(5), "a"), instruction(_at(5), "b")),
            *(email(_at(0), "SENT", _at(6)), email(_at(7), "PENDING")),
            *(undo(_at(8), "REVERTED", 1), undo(None, "KEPT", 2), undo(_at(9), "PENDING", 3)),
        ]
    )
    session.flush()
    return [
        Event(_at(8), EventKind.UNDO, 1, "REVERTED", _UNDO),
        Event(_at(7), EventKind.EMAIL, 1, "PENDING", None),
        Event(_at(6), EventKind.EMAIL, 1, "SENT", None),
        Event(_at(5), EventKind.PAYMENT_INSTRUCTIONS, 2, None, None),
        Event(_at(4), EventKind.STATEMENTS, 2, None, None),
        Event(_at(3), EventKind.TRANSACTIONS, 2, None, None),
        Event(_at(2), EventKind.NOTES, 1, None, None),
        Event(_at(1), EventKind.NOTES, 2, None, None),
    ]


@pytest.fixture
def make(session: Session, known: KnownSupplier) -> Callable[[str], tuple[models.Account, list[Event]]]:
    vendor = add(session, models.PaymentVendor(name="vendor", kind="http", url="")).id

    def made(number: str) -> tuple[models.Account, list[Event]]:
        account = make_account(session, make_process(session, known, number))
        return account, _make_parts(session, account, vendor)

    return made


def test_the_events_of_one_account_come_the_newest_first(
    session: Session,
    make: Callable[[str], tuple[models.Account, list[Event]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    account, events = make("1")
    process_id = account.account_import_process_id
    assert list_events(session, process_id, account.id, was_undone=True) == events
    make("2")
    assert list_events(session, process_id, account.id, was_undone=True) == events
    assert list_events(session, process_id, account.id, was_undone=False) == events[1:]
    assert list_events(session, process_id, None, was_undone=True) == events[:1]
    monkeypatch.setattr(timeline, "MOST", 3)
    assert list_events(session, process_id, account.id, was_undone=True) == events[:3]
