"""Setting up payment vendors (section 4.11).

A vendor belongs to an organisation, or is shared so that every organisation can name it. For a caller,
vendors of other organisations do not exist.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import func, or_, select, text
from sqlalchemy.orm import Session

from migration_service.config import is_setting
from migration_service.errors import PaymentVendorInvalidError, PaymentVendorNotFoundError
from migration_service.models import Organisation, PaymentVendor
from migration_service.outgoing.rules import show_url
from migration_service.payment_vendors.addresses import check_vendor_url
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.services.setup.names import check_name, unique_name
from migration_service.services.setup.organisations import get_organisation

#: The bounds on the calls per second that batches may make to a vendor.
LEAST_RATE, LARGEST_RATE = Decimal("0.01"), Decimal(1_000)

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def create_payment_vendor(
    session: Session,
    name: str,
    *,
    kind: VendorKind,
    url: str,
    secret_env: str | None = None,
    organisation_name: str | None = None,
) -> PaymentVendor:
    """Create a payment vendor of an organisation, or one shared by all organisations if None.

    `secret_env` names the environment variable with its secret. Raise NameInvalidError, NameTakenError,
    OrganisationNotFoundError, and PaymentVendorInvalidError for the address or the variable.
    """
    check_name(name, "name of a payment vendor")
    check_vendor(url, secret_env)
    owner = None if organisation_name is None else get_organisation(session, organisation_name).id
    vendor = PaymentVendor(name=name, kind=kind, url=url, secret_env=secret_env, organisation_id=owner)
    constraint = "uq_payment_vendor_shared" if owner is None else "uq_payment_vendor_organisation_id_name"
    with unique_name(session, constraint, f"Payment vendor {name!r} already exists."):
        session.add(vendor)
    details = {"kind": kind.value, "url": show_url(url), "secret_env": secret_env}
    record_about(session, AuditAction.VENDOR_CREATED, vendor, details)
    return vendor


def set_vendor_rate(
    session: Session, name: str, calls_per_second: Decimal, *, organisation_name: str | None = None
) -> None:
    """Set the rate of a vendor: the calls per second from the batches of all workers together.

    The vendor is that of the organisation, or the shared one if None. Raise PaymentVendorNotFoundError,
    OrganisationNotFoundError, and PaymentVendorInvalidError if the rate is out of bounds.
    """
    if not LEAST_RATE <= calls_per_second <= LARGEST_RATE:
        raise PaymentVendorInvalidError(f"Expected a rate from {LEAST_RATE} to {LARGEST_RATE:,} per second.")
    owner = None if organisation_name is None else get_organisation(session, organisation_name).id
    own = PaymentVendor.name == name, PaymentVendor.organisation_id.is_not_distinct_from(owner)
    vendor = session.scalar(select(PaymentVendor).where(*own))
    if vendor is None:
        raise PaymentVendorNotFoundError(found=name)
    vendor.calls_per_second = calls_per_second
    details = {"calls_per_second": str(calls_per_second)}
    record_about(session, AuditAction.VENDOR_RATE_SET, vendor, details)


@dataclass(frozen=True, slots=True)
class ReservedCalls:
    """Calls to a vendor that one worker may make, one after the other at the vendor's rate."""

    number: int
    #: Seconds until the first call, and between calls.
    delay: float
    interval: float


def reserve_calls(session: Session, vendor_id: int, wanted: int, *, seconds: float) -> ReservedCalls | None:
    """Reserve as many calls to a vendor as fit into `seconds`, at least one.

    Return None if other workers have already reserved the next seconds. The caller commits immediately.
    """
    row = session.execute(_RESERVE, {"id": vendor_id, "wanted": wanted, "seconds": seconds}).first()
    return ReservedCalls(int(row.number), float(row.delay), float(row.step)) if row else None


_RESERVE = text("""
    UPDATE payment_vendor
    SET next_call_at = found.first + make_interval(secs => CAST(found.number / found.rate AS float))
    FROM (SELECT id, calls_per_second AS rate, statement_timestamp() AS moment,
                 greatest(coalesce(next_call_at, statement_timestamp()), statement_timestamp()) AS first,
                 greatest(1, least(:wanted, floor(calls_per_second * :seconds))) AS number
          FROM payment_vendor WHERE id = :id FOR UPDATE) AS found
    WHERE payment_vendor.id = found.id AND found.first < found.moment + interval '2 seconds'
    RETURNING found.number, extract(epoch FROM found.first - found.moment) AS delay, 1 / found.rate AS step
""")


def get_payment_vendor(session: Session, organisation_id: int, name: str) -> PaymentVendor:
    """Return the organisation's vendor with this name, or else the shared one.

    Suppliers write STRIPE for stripe, so case is ignored if no vendor has the exact name. Raise
    PaymentVendorNotFoundError.
    """
    vendor = session.scalar(
        select(PaymentVendor)
        .where(
            func.lower(PaymentVendor.name) == func.lower(name),
            or_(PaymentVendor.organisation_id == organisation_id, PaymentVendor.organisation_id.is_(None)),
        )
        .order_by(
            (PaymentVendor.name == name).desc(), PaymentVendor.organisation_id.nulls_last(), PaymentVendor.id
        )
        .limit(1)
    )
    if vendor is None:
        raise PaymentVendorNotFoundError(found=name)
    return vendor


def check_vendor(url: str, secret_env: str | None) -> None:
    """Raise PaymentVendorInvalidError if this address or variable is not valid for a vendor."""
    try:
        check_vendor_url(url, with_secret=secret_env is not None)
    except ValueError as error:
        raise PaymentVendorInvalidError(str(error)) from error
    if secret_env is not None and not _VARIABLE.fullmatch(secret_env):
        raise PaymentVendorInvalidError(
            "Expected the name of an environment variable with the secret, not the secret itself."
        )
    if secret_env is not None and is_setting(secret_env):
        raise PaymentVendorInvalidError(
            f"{secret_env} is a setting of the service, and is sent to no vendor. Use a separate variable."
        )


def list_payment_vendors(session: Session) -> Sequence[tuple[PaymentVendor, str | None]]:
    """Return all payment vendors by name, with the name of their organisation, or None if shared."""
    owned = select(PaymentVendor, Organisation.name).outerjoin(Organisation)
    return session.execute(owned.order_by(PaymentVendor.name, PaymentVendor.id)).all()
