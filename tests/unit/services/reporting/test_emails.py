"""Customer e-mails of some suppliers, by state, in pages."""

from datetime import UTC, datetime

import pytest
from sqlalchemy.orm import Session

from migration_service.models import Account, Customer, CustomerEmail
from migration_service.services.reporting.emails import ListedEmail, count_emails, list_emails
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import EmailState
from unit.services.reporting.rows import add, make_account, make_process

_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _make_email(
    session: Session, account: Account, code: str, state: str = "PENDING", **values: object
) -> ListedEmail:
    customer = add(session, Customer(account_pk=account.id, position=0))
    email = add(session, CustomerEmail(organisation_id=1, customer_pk=customer.id, state=state, **values))
    return ListedEmail(
        email.id,
        code,
        account.external_account_number,
        state,
        email.created_at,
        email.next_try_at,
        email.failures,
        email.error,
        email.sent_at,
    )


@pytest.fixture
def emails(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[ListedEmail]:
    """Return four e-mails, the newest first. The third one is of the other supplier."""
    one, two = (make_account(session, make_process(session, known, number)) for number in "12")
    theirs = make_account(session, make_process(session, other, "1"))
    failed = {"failures": 3, "error": "refused", "next_try_at": _AT}
    return [
        _make_email(session, one, "MINE", "SENT", sent_at=_AT, created_at=_AT),
        _make_email(session, theirs, "OTHER", "REFUSED", **failed),
        _make_email(session, two, "MINE", "PENDING", failures=1),
        _make_email(session, two, "MINE", "SENT", sent_at=_AT),
    ][::-1]


def test_emails_are_counted_by_state(
    session: Session, known: KnownSupplier, other: KnownSupplier, emails: list[ListedEmail]
) -> None:
    nothing = dict.fromkeys(map(str, EmailState), 0)
    assert count_emails(session, import_supplier_ids=None) == nothing | {
        "SENT": 2,
        "REFUSED": 1,
        "PENDING": 1,
    }
    assert count_emails(session, import_supplier_ids=[known.id]) == nothing | {"SENT": 2, "PENDING": 1}
    assert count_emails(session, import_supplier_ids=[other.id]) == nothing | {"REFUSED": 1}
    assert count_emails(session, import_supplier_ids=[]) == nothing


def test_emails_are_listed_by_supplier_state_and_page(
    session: Session, known: KnownSupplier, emails: list[ListedEmail]
) -> None:
    newest, second, theirs, oldest = emails
    assert list_emails(session, import_supplier_ids=None, state=None) == emails
    assert list_emails(session, import_supplier_ids=None, state=None, limit=2) == [newest, second]
    assert list_emails(session, import_supplier_ids=None, state=None, before=second.id) == [theirs, oldest]
    assert list_emails(session, import_supplier_ids=[known.id], state=None) == [newest, second, oldest]
    assert list_emails(session, import_supplier_ids=None, state=EmailState.SENT) == [newest, oldest]
    assert list_emails(session, import_supplier_ids=[], state=None) == []
