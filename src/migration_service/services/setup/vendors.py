"""Payment vendors as operators set them up (section 4.11)."""

import re
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import PaymentVendorInvalidError
from migration_service.models import PaymentVendor
from migration_service.payment_vendors.addresses import check_vendor_url
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.names import check_name, unique_name

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def create_payment_vendor(
    session: Session, name: str, *, kind: VendorKind, url: str, secret_env: str | None = None
) -> PaymentVendor:
    """Create a payment vendor that payment instructions can name.

    `secret_env` names the environment variable of the web processes that holds its secret. Raise
    NameInvalidError, NameTakenError, or PaymentVendorInvalidError if the address or the variable is invalid.
    """
    check_name(name, "name of a payment vendor")
    check_vendor(url, secret_env)
    vendor = PaymentVendor(name=name, kind=kind, url=url, secret_env=secret_env)
    with unique_name(session, "uq_payment_vendor_name", f"A payment vendor {name!r} already exists."):
        session.add(vendor)
    return vendor


def check_vendor(url: str, secret_env: str | None) -> None:
    """Raise PaymentVendorInvalidError if a vendor cannot have this address or variable."""
    try:
        check_vendor_url(url, with_secret=secret_env is not None)
    except ValueError as error:
        raise PaymentVendorInvalidError(str(error)) from error
    if secret_env is not None and not _VARIABLE.fullmatch(secret_env):
        raise PaymentVendorInvalidError(
            "--secret-env takes the name of an environment variable, not the secret itself."
        )


def list_payment_vendors(session: Session) -> Sequence[PaymentVendor]:
    """Return every payment vendor, ordered by name."""
    return session.scalars(select(PaymentVendor).order_by(PaymentVendor.name)).all()
