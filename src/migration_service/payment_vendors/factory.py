"""Creating the client of a payment vendor from the vendor's stored settings."""

import functools
import logging

from migration_service.config import SettingsError, read_secret
from migration_service.errors import PaymentVendorUnreachableError
from migration_service.payment_vendors.connection import CallLimits, VendorConnection
from migration_service.payment_vendors.http import HttpPaymentVendor
from migration_service.payment_vendors.measured import MeasuredVendor
from migration_service.payment_vendors.protocol import VendorClient, VendorKind
from migration_service.payment_vendors.stripe import API_VERSION, StripePaymentVendor

logger = logging.getLogger(__name__)


def make_vendor(
    kind: str, url: str, secret: str | None = None, *, name: str = "", limits: CallLimits | None = None
) -> VendorClient:
    """Return a vendor with its own connections and circuit breaker. Create it once and keep it.

    `name` is used in the log. Raise ValueError if the kind or the URL is invalid.
    """
    if VendorKind(kind) is VendorKind.STRIPE:
        headers = {"Stripe-Version": API_VERSION}
        return StripePaymentVendor(
            VendorConnection(name=name or kind, url=url, secret=secret, limits=limits, headers=headers)
        )
    return HttpPaymentVendor(VendorConnection(name=name or kind, url=url, secret=secret, limits=limits))


@functools.lru_cache(maxsize=1_024)
def get_vendor(name: str, kind: str, url: str, secret_env: str | None, organisation_id: int) -> VendorClient:
    """Return the vendor set up by an operator, which is the same object for each call in this process.

    The secret is read from the environment variable `secret_env`. Only the variable's name is stored or
    logged. Raise PaymentVendorUnreachableError if the variable or the URL cannot be used on this server.
    """
    try:
        secret = read_secret(secret_env) if secret_env else None
        return MeasuredVendor(name, make_vendor(kind, url, secret, name=name))
    except (SettingsError, ValueError) as error:
        logger.error("Payment vendor %s is not set up correctly on this server: %s", name, error)
        raise PaymentVendorUnreachableError(
            "The payment vendor is not set up correctly on this server. An operator must correct this. "
            "The log says what is wrong."
        ) from error
