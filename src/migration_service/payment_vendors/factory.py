"""The adapters of payment vendors, and the client of one from its stored settings."""

import logging
import re
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

from migration_service.config import SettingsError, read_secret
from migration_service.errors import PaymentInstructionRejectedError, PaymentVendorUnreachableError
from migration_service.payment_vendors.addresses import MAX_REFERENCE_LENGTH, check_reference
from migration_service.payment_vendors.calls import CALLS
from migration_service.payment_vendors.connection import CallLimits, VendorConnection
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorClient, VendorKind

logger = logging.getLogger(__name__)

#: The details that are stored. All other data from a vendor is discarded.
KEPT_DETAILS = frozenset(
    {
        "description",
        "brand",
        "last_four_digits",
        "expiry_month",
        "expiry_year",
        "holder",
        "bank_name",
        "country",
        "mandate_reference",
    }
)
_MAX_TEXT = 255
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
#: Twelve to nineteen digits, possibly with spaces or dashes, which may be a full card number.
_LONG_NUMBER = re.compile(r"\d(?:[ -]?\d){11,18}")

#: The version of Stripe's interface used by this adapter, whatever the default of the account.
API_VERSION = "2023-10-16"

#: Instruction types that Stripe names differently. Other types only have to be converted to lower case.
_STRIPE_TYPES = {"DIRECT_DEBIT": "sepa_debit", "SEPA": "sepa_debit"}

_PAYMENT_METHOD_ID = re.compile(r"pm_[A-Za-z0-9_]+")

#: Fields of Stripe's objects -> our details, for each kind of payment method with details.
_STRIPE_DETAILS = {
    "card": {
        "brand": "brand",
        "last4": "last_four_digits",
        "exp_month": "expiry_month",
        "exp_year": "expiry_year",
        "country": "country",
    },
    "sepa_debit": {"last4": "last_four_digits", "country": "country", "bank_code": "bank_code"},
}


def _ask_http(connection: VendorConnection, reference: str, type: str) -> PaymentInstructionDetails:
    """Ask a vendor that answers GET {url}/payment-instructions/{reference}?type={type}."""
    check_reference(reference)
    answer = connection.get("payment-instructions", reference, query={"type": type})
    if answer.get("reference") != reference:
        raise connection.invalid_answer("it is about another reference")
    status = answer.get("status")
    if not isinstance(status, str) or not _CODE.fullmatch(status):
        raise connection.invalid_answer("it has no status")
    if answer.get("type") != type:
        raise PaymentInstructionRejectedError(
            f"The payment vendor knows this reference, but not as an instruction of type {type}."
        )
    if status != "ACTIVE":
        raise PaymentInstructionRejectedError(f"The payment instruction is {status} at the payment vendor.")
    return PaymentInstructionDetails(
        details=_kept_details(answer.get("details")),
        customer_reference=_reference_in(answer, "customer_reference"),
        account_reference=_reference_in(answer, "account_reference"),
    )


def _kept_details(details: Any) -> dict[str, str | int | bool]:
    if not isinstance(details, Mapping):
        return {}
    return {
        key: _shortened(value) if isinstance(value, str) else value
        for key, value in details.items()
        if key in KEPT_DETAILS and isinstance(value, str | int)
    }


def _shortened(text: str) -> str:
    """Return the text shortened, without control characters and possible card numbers."""
    printable = "".join(character for character in text if character.isprintable())
    return _LONG_NUMBER.sub(lambda number: "*" * 8 + number[0][-4:], printable)[:_MAX_TEXT]


def _reference_in(answer: Any, name: str) -> str | None:
    """Return the reference `name` in an object of a response, or None if it has none that can be stored."""
    value = answer.get(name) if isinstance(answer, Mapping) else None
    if not isinstance(value, str) or not 0 < len(value) <= MAX_REFERENCE_LENGTH or not value.isprintable():
        return None
    return value


def _ask_stripe(connection: VendorConnection, reference: str, type: str) -> PaymentInstructionDetails:
    """Ask Stripe about a payment method. The secret is a (restricted) API key that may read these.

    A reference that is not the id of a payment method is rejected without a call to Stripe.
    """
    check_reference(reference)
    if not _PAYMENT_METHOD_ID.fullmatch(reference):
        raise PaymentInstructionRejectedError("The reference is not the id of a payment method (pm_...).")
    answer = connection.get("v1", "payment_methods", reference)
    stripe_type = answer.get("type")
    if answer.get("object") != "payment_method" or not isinstance(stripe_type, str):
        raise connection.invalid_answer("it is not a payment method")
    if stripe_type != _STRIPE_TYPES.get(type, type.lower()):
        raise PaymentInstructionRejectedError(
            f"The payment method is of Stripe's type {stripe_type}, which does not fit {type}."
        )
    return PaymentInstructionDetails(
        details=_stripe_details(answer, stripe_type),
        customer_reference=_reference_in(answer, "customer"),  # its id, because the object is not requested
        account_reference=_reference_in(answer.get("metadata"), "account_reference"),
    )


def _stripe_details(answer: dict[str, Any], stripe_type: str) -> dict[str, str | int | bool]:
    # A payment method without a customer cannot be charged again, so operators should notice it.
    details: dict[str, str | int | bool] = {"attached_to_customer": answer.get("customer") is not None}
    kind = answer.get(stripe_type)
    if isinstance(kind, dict):
        for field, name in _STRIPE_DETAILS.get(stripe_type, {}).items():
            if isinstance(kind.get(field), str | int):
                details[name] = kind[field]
    return details


def make_vendor(
    kind: str, url: str, secret: str | None = None, *, name: str = "", limits: CallLimits | None = None
) -> VendorClient:
    """Return a vendor with its own connections and circuit breaker. Create it once and keep it.

    `name` is used in the log. Raise ValueError if the kind or the URL is invalid.
    """
    is_stripe = VendorKind(kind) is VendorKind.STRIPE
    headers = {"Stripe-Version": API_VERSION} if is_stripe else {}
    connection = VendorConnection(name=name or kind, url=url, secret=secret, limits=limits, headers=headers)
    return partial(_ask_stripe if is_stripe else _ask_http, connection)


@lru_cache(maxsize=1_024)
def get_vendor(name: str, kind: str, url: str, secret_env: str | None, organisation_id: int) -> VendorClient:
    """Return the vendor set up by an operator, which is the same object for each call in this process.

    The secret is read from the environment variable `secret_env`. Only the variable's name is stored or
    logged. Raise PaymentVendorUnreachableError if the variable or the URL cannot be used on this server.
    """
    try:
        secret = read_secret(secret_env) if secret_env else None
        return _measured(name, make_vendor(kind, url, secret, name=name))
    except (SettingsError, ValueError) as error:
        logger.error("Payment vendor %s is not set up correctly on this server: %s", name, error)
        raise PaymentVendorUnreachableError(
            "The payment vendor is not set up correctly on this server. An operator must correct this. "
            "The log says what is wrong."
        ) from error


def _measured(name: str, vendor: VendorClient) -> VendorClient:
    """Return the vendor with the duration and outcome of each call recorded under `name`."""

    def retrieve(reference: str, type: str) -> PaymentInstructionDetails:
        started = time.monotonic()
        try:
            details = vendor(reference, type)
        except BaseException as error:
            CALLS.add(name, time.monotonic() - started, error)
            raise
        CALLS.add(name, time.monotonic() - started, None)
        return details

    return retrieve
