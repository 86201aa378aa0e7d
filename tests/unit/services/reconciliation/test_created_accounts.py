"""Which created accounts are compared, page by page, and what differs in each measure."""

from datetime import date
from decimal import Decimal
from uuid import uuid4

import pytest
from sqlalchemy import null, select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.normal_form import FieldDifference
from migration_service.models import Account, AccountImportProcess, Ledger, Transaction
from migration_service.services.reconciliation import created_accounts
from migration_service.services.reconciliation.comparisons import start_comparison
from migration_service.services.reconciliation.created_accounts import (
    compare_account,
    compare_page,
)
from migration_service.services.reconciliation.differences import AccountDifference, Difference, Totals
from migration_service.services.setup.suppliers import KnownSupplier
from support.rows import add, compare, make_batch, make_created, make_line, make_process


def test_a_value_without_a_column_is_a_difference(session: Session, known: KnownSupplier) -> None:
    payload = {"import_supplier": "MINE", "external_account_number": "1", "unknown_occupier": True}
    process = make_created(session, known, "1", payload={**payload, "loyalty": {"points": 7}})
    found = compare_account(session, process.id)
    assert found
    assert found.values == [FieldDifference("loyalty.points", 7, None)]


def test_a_row_below_another_account_than_it_names_is_a_difference(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    ledgers = {}
    for number in "12":
        process = make_created(session, known, number)
        account = session.scalars(select(Account).filter_by(account_import_process_id=process.id)).one()
        ledgers[number] = session.scalars(select(Ledger).filter_by(account_pk=account.id)).one()
    values = {"transaction_id": "t", "transaction_date": date(2026, 1, 1), "amount": 5, "type": "CHARGE"}
    keys = {
        "ledger_pk": ledgers["2"].id,
        "account_pk": ledgers["1"].account_pk,
        "position": 0,
        "period": "OPEN",
    }
    add(session, Transaction(**keys, **values))
    _, found = compare(within, known)
    assert [(it.external_account_number, [value.path for value in it.values]) for it in found] == [
        ("2", ["ledgers.0.transactions_in_open_settlement_period.0"])
    ]


def test_nothing_is_clean_if_nothing_was_compared(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    found, _ = compare(within, known)
    assert (found.is_created_clean, found.is_clean, found.problems) == (False, True, {})
    assert found.totals.describe_clean() == "Nothing was compared."
    make_created(session, known, "no payload", payload=null())
    found, _ = compare(within, known)
    assert (found.is_created_clean, found.problems) == (False, {"NOT_COMPARABLE": 1})
    removed = "1 account could not be compared: the staged payload was removed."
    assert found.totals.describe_clean() == f"Nothing was compared. {removed}"
    make_created(session, known, "1")
    found, _ = compare(within, known)
    assert (found.is_created_clean, found.problems) == (False, {"NOT_COMPARABLE": 1})
    assert found.totals.describe_clean() == f"Every value of 1 account is as it was staged. {removed}"


@pytest.fixture
def pages(
    session: Session, known: KnownSupplier, other: KnownSupplier, monkeypatch: pytest.MonkeyPatch
) -> list[AccountDifference]:
    """Pages of one account. Return what differs: an account whose process is not imported, and the reverse.

    "no payload" and "same" are as they were staged. "pending" has no account.
    """
    monkeypatch.setattr(created_accounts, "PAGE", 1)
    make_process(session, known, "gone", service_account_number="A-gone")
    for number, values in (("back", {"state": "PENDING"}), ("no payload", {"payload": null()}), ("same", {})):
        make_created(session, known, number, **values)
    make_process(session, known, "pending", state="PENDING")
    for number in ("aside", "pending"):
        make_process(session, other, number)
    return [
        AccountDifference("back", "A-back", [Difference("accounts", Decimal(0), Decimal(1))]),
        AccountDifference("gone", "A-gone", [Difference("accounts", Decimal(1), Decimal(0))]),
    ]


def test_pages_have_what_was_imported_or_has_an_account(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, pages: list[AccountDifference]
) -> None:
    found, differing = compare(within, known)
    assert differing == pages
    assert found.totals.measures["accounts"] == (Decimal(3), Decimal(3))
    assert (found.differing, found.totals.not_comparable) == (2, 1)
    comparison, _ = start_comparison(session, known)
    assert compare_page(session, comparison, Totals(), after="back") == ("gone", 1, pages[1:])
    for after, place in (("no payload", "pending"), ("pending", "same"), ("same", None)):
        page = compare_page(session, comparison, Totals(), after=after)
        assert page == (place, int(place is not None), [])


def test_all_lines_that_cannot_be_compared_are_counted_and_a_hundred_named() -> None:
    totals, batch_id = Totals(), uuid4()
    for line_number in range(102):
        totals.add_unreadable_line(batch_id, line_number)
    assert (totals.not_comparable_lines, len(totals.named_lines)) == (102, 100)


def test_an_account_is_compared_by_itself(
    session: Session, known: KnownSupplier, pages: list[AccountDifference]
) -> None:
    for page in pages:
        process = session.scalars(
            select(AccountImportProcess).filter_by(external_account_number=page.external_account_number)
        ).one()
        assert compare_account(session, process.id) == page
    same = make_created(session, known, "same as well")
    assert compare_account(session, same.id) == AccountDifference("same as well", "A-same as well", [])
    removed = make_created(session, known, "no payload either", payload=null())
    assert compare_account(session, removed.id) is None
    assert compare_account(session, make_process(session, known, "neither", state="SKIPPED").id) is None


def test_a_batch_has_the_accounts_of_its_lines_in_their_order(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, pages: list[AccountDifference]
) -> None:
    batch = make_batch(session, known)
    make_line(session, batch, 3, "same", "FAILED", "duplicate_line_in_batch", "invalid")
    make_line(session, batch, 4, "same", "FAILED", "invalid")
    for line, number in ((1, "gone"), (2, "pending"), (6, "back"), (7, None), (8, "never staged")):
        make_line(session, batch, line, number, "VALID")
    make_line(session, make_batch(session, known), 5, "no payload", "VALID")
    batch_id = batch.id
    back, gone = pages
    verdict, differing = compare(within, known, batch_id)
    assert differing == [gone, back]
    assert verdict.totals.measures["accounts"] == (Decimal(2), Decimal(2))
    assert (verdict.differing, verdict.totals.not_comparable) == (2, 0)
    steps: tuple[tuple[int, int | None, list[AccountDifference]], ...] = (
        (0, 1, [gone]),
        (1, 2, []),
        (3, 4, []),
        (4, 6, [back]),
        (6, 7, []),
        (8, None, []),
    )
    comparison, _ = start_comparison(session, known, batch_id)
    for after, place, found in steps:
        page = compare_page(session, comparison, Totals(), after=after)
        assert page == (place, int(place is not None), found)


def test_a_payload_that_was_removed_is_not_comparable_in_a_batch_either(
    session: Session, within: sessionmaker[Session], known: KnownSupplier, pages: list[AccountDifference]
) -> None:
    batch = make_batch(session, known)
    make_line(session, batch, 1, "no payload", "VALID")
    verdict, differing = compare(within, known, batch.id)
    assert differing == []
    assert verdict.totals.not_comparable == 1
    assert verdict.totals.measures == {"accounts": (Decimal(1), Decimal(1))}
