"""The adapter for Stripe's public HTTP interface, where an instruction is a payment method (`pm_...`)."""

import re
from typing import Any

from migration_service.errors import PaymentInstructionRejectedError
from migration_service.payment_vendors.addresses import check_reference
from migration_service.payment_vendors.connection import VendorConnection
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, reference_in

#: The version of Stripe's interface used by this adapter, whatever the default of the account.
API_VERSION = "2023-10-16"

#: Instruction types that Stripe names differently. Other types only have to be converted to lower case.
_STRIPE_TYPES = {"DIRECT_DEBIT": "sepa_debit", "SEPA": "sepa_debit"}

_PAYMENT_METHOD_ID = re.compile(r"pm_[A-Za-z0-9_]+")

#: Fields of Stripe's objects -> our details, for each kind of payment method with details.
_DETAILS = {
    "card": {
        "brand": "brand",
        "last4": "last_four_digits",
        "exp_month": "expiry_month",
        "exp_year": "expiry_year",
        "country": "country",
    },
    "sepa_debit": {"last4": "last_four_digits", "country": "country", "bank_code": "bank_code"},
}


class StripePaymentVendor:
    """Stripe. The secret is a (restricted) API key that may read payment methods."""

    def __init__(self, connection: VendorConnection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"StripePaymentVendor({self._connection!r})"

    def retrieve_instruction(self, *, reference: str, type: str) -> PaymentInstructionDetails:
        """Return the payment method from Stripe. Raise the errors of VendorClient.

        A reference that is not the id of a payment method is rejected without a call to Stripe.
        """
        check_reference(reference)
        if not _PAYMENT_METHOD_ID.fullmatch(reference):
            raise PaymentInstructionRejectedError("The reference is not the id of a payment method (pm_...).")
        answer = self._connection.get("v1", "payment_methods", reference)
        stripe_type = answer.get("type")
        if answer.get("object") != "payment_method" or not isinstance(stripe_type, str):
            raise self._connection.invalid_answer("it is not a payment method")
        if stripe_type != _STRIPE_TYPES.get(type, type.lower()):
            raise PaymentInstructionRejectedError(
                f"The payment method is of Stripe's type {stripe_type}, which does not fit {type}."
            )
        return PaymentInstructionDetails(
            reference=reference,
            type=type,
            status="ACTIVE",
            details=_details(answer, stripe_type),
            customer_reference=reference_in(_expanded(answer), "id"),
            account_reference=reference_in(_metadata(answer), "account_reference"),
        )


def _expanded(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the customer as an object. Stripe sends only its id unless the object was requested."""
    customer = answer.get("customer")
    return customer if isinstance(customer, dict) else {"id": customer}


def _metadata(answer: dict[str, Any]) -> dict[str, Any]:
    metadata = answer.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def _details(answer: dict[str, Any], stripe_type: str) -> dict[str, str | int | bool]:
    # A payment method without a customer cannot be charged again, so operators should notice it.
    details: dict[str, str | int | bool] = {"attached_to_customer": answer.get("customer") is not None}
    kind = answer.get(stripe_type)
    if isinstance(kind, dict):
        for field, name in _DETAILS.get(stripe_type, {}).items():
            if isinstance(kind.get(field), str | int):
                details[name] = kind[field]
    return details
