"""The adapter for the plain JSON interface of docs/operators/payment-vendors.md."""

import re
from collections.abc import Mapping
from typing import Any

from migration_service.errors import PaymentInstructionRejectedError
from migration_service.payment_vendors.addresses import check_reference
from migration_service.payment_vendors.connection import VendorConnection
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, reference_in

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


class HttpPaymentVendor:
    """A vendor that answers GET {url}/payment-instructions/{reference}?type={type}."""

    def __init__(self, connection: VendorConnection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"HttpPaymentVendor({self._connection!r})"

    def retrieve_instruction(self, *, reference: str, type: str) -> PaymentInstructionDetails:
        """Return the instruction from the vendor. Raise the errors of VendorClient."""
        check_reference(reference)
        answer = self._connection.get("payment-instructions", reference, query={"type": type})
        if answer.get("reference") != reference:
            raise self._connection.invalid_answer("it is about another reference")
        status = answer.get("status")
        if not isinstance(status, str) or not _CODE.fullmatch(status):
            raise self._connection.invalid_answer("it has no status")
        if answer.get("type") != type:
            raise PaymentInstructionRejectedError(
                f"The payment vendor knows this reference, but not as an instruction of type {type}."
            )
        if status != "ACTIVE":
            raise PaymentInstructionRejectedError(
                f"The payment instruction is {status} at the payment vendor."
            )
        return PaymentInstructionDetails(
            reference=reference,
            type=type,
            status=status,
            details=_kept_details(answer.get("details")),
            customer_reference=reference_in(answer, "customer_reference"),
            account_reference=reference_in(answer, "account_reference"),
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
