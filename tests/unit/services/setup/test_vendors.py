"""Payment vendors: whose they are, and the calls that batches reserve."""

from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.models import PaymentVendor
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup import vendors
from support.factories import Customer, make_customer
from support.interleavings import COMMIT, Script, Step, explore

_URL = "https://vendor.example/api"


def _create(session: Session, name: str, owner: str | None = None, **options: Any) -> PaymentVendor:
    given = {"kind": VendorKind.HTTP, "url": _URL, "secret_env": "VENDOR_SECRET"} | options
    return vendors.create_payment_vendor(session, name, organisation_name=owner, **given)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "ftp://vendor.example"}, "."),
        ({"url": "http://vendor.example"}, "."),
        ({"secret_env": "the-secret-itself"}, "name of an environment variable"),
        ({"secret_env": "1_SECRET"}, "name of an environment variable"),
        ({"secret_env": "DATABASE_URL"}, "is a setting of the service"),
        ({"secret_env": "DATABASE_URL_FILE"}, "is a setting of the service"),
    ],
)
def test_a_vendor_that_would_give_a_secret_away_is_refused(
    sessions: sessionmaker[Session], options: dict[str, Any], message: str
) -> None:
    with sessions() as session:
        with pytest.raises(errors.PaymentVendorInvalidError, match=message):
            _create(session, "A", **options)
        assert vendors.list_payment_vendors(session) == []


def test_a_vendor_is_that_of_the_organisation_or_else_a_shared_one_whatever_its_case(
    sessions: sessionmaker[Session], customer: Customer
) -> None:
    other = make_customer(sessions)
    with sessions() as session:
        shared_exact = _create(session, "Acme")
        shared = _create(session, "ACME")
        own = _create(session, "acme", customer.organisation)
        own_upper = _create(session, "ACME", customer.organisation)
        foreign = _create(session, "Theirs", other.organisation)

        def find(organisation_id: int, name: str) -> int:
            return vendors.get_payment_vendor(session, organisation_id, name).id

        mine = customer.organisation_id
        assert find(mine, "acme") == own.id
        assert find(mine, "ACME") == own_upper.id
        assert find(mine, "Acme") == shared_exact.id
        assert find(mine, "aCME") == own.id
        assert find(other.organisation_id, "ACME") == shared.id
        assert find(other.organisation_id, "acme") == shared_exact.id
        assert find(other.organisation_id, "theirs") == foreign.id
        for organisation_id, name in ((mine, "Theirs"), (mine, "nobody"), (0, "Theirs")):
            with pytest.raises(errors.PaymentVendorNotFoundError):
                find(organisation_id, name)
        session.rollback()


def _reserve(
    session: Session, vendor: PaymentVendor, next_call: str, wanted: int = 100
) -> vendors.ReservedCalls | None:
    """Reserve calls of three seconds, with the next call at so many seconds from now."""
    statement = "UPDATE payment_vendor SET next_call_at = now() + CAST(:next AS interval) WHERE id = :id"
    session.execute(text(statement), {"id": vendor.id, "next": next_call})
    return vendors.reserve_calls(session, vendor.id, wanted, seconds=3.0)


def _reserved_until(session: Session, vendor: PaymentVendor) -> float:
    statement = "SELECT extract(epoch FROM next_call_at - now()) FROM payment_vendor WHERE id = :id"
    return float(session.execute(text(statement), {"id": vendor.id}).scalar_one())


def test_calls_are_reserved_one_after_the_other_at_the_rate_of_the_vendor(
    sessions: sessionmaker[Session],
) -> None:
    with sessions() as session:
        vendor, other = _create(session, "A"), _create(session, "B")
        vendors.set_vendor_rate(session, "A", Decimal(10))
        vendors.set_vendor_rate(session, "B", Decimal(1))
        session.flush()
        assert _reserve(session, vendor, "-1 hour") == vendors.ReservedCalls(30, 0.0, 0.1)
        assert 3 <= _reserved_until(session, vendor) < 63
        assert _reserve(session, vendor, "-1 hour", wanted=7) == vendors.ReservedCalls(7, 0.0, 0.1)
        assert _reserve(session, vendor, "1 hour") is None
        assert _reserve(session, other, "-1 hour") == vendors.ReservedCalls(3, 0.0, 1.0)
        vendors.set_vendor_rate(session, "B", Decimal("0.01"))
        session.flush()
        # At least one, however slow the vendor is.
        assert _reserve(session, other, "-1 hour") == vendors.ReservedCalls(1, 0.0, 100.0)
        assert 100 <= _reserved_until(session, other) < 160
        # Another second is free: nothing is reserved beyond it.
        assert _reserve(session, other, "1 hour") is None
        assert _reserved_until(session, other) == 3_600
        assert _reserved_until(session, vendor) == 3_600, "calls of another vendor were reserved"
        session.rollback()


def test_two_workers_never_reserve_the_same_calls(sessions: sessionmaker[Session]) -> None:
    names = (f"V{number}" for number in count())

    def script() -> Script:
        with sessions.begin() as session:
            vendor_id = _create(session, name := next(names)).id
            vendors.set_vendor_rate(session, name, Decimal(10))
            begun = session.execute(select(func.clock_timestamp())).scalar_one()
        reserve: Step = (
            "reserve",
            lambda session: vendors.reserve_calls(session, vendor_id, 10, seconds=3.0),
        )
        yield {"one": [reserve, COMMIT], "other": [reserve, COMMIT]}
        with sessions() as session:
            next_call_at = session.get_one(PaymentVendor, vendor_id).next_call_at
        assert next_call_at is not None
        assert next_call_at - begun >= timedelta(seconds=2), "twenty calls fit into less than two seconds"

    assert explore(sessions, script) == 4
