"""The protocol of the adapters of payment vendors."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

#: The message about a reference unknown to the vendor.
UNKNOWN_INSTRUCTION = "The payment vendor does not know this payment instruction."

_LONGEST_REFERENCE = 255


class VendorKind(enum.StrEnum):
    """The interface of a vendor (`vendors create --kind`)."""

    #: The plain JSON interface of docs/operators/payment-vendors.md, which any gateway can offer.
    HTTP = "http"
    #: Stripe's public HTTP interface.
    STRIPE = "stripe"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentInstructionDetails:
    """The vendor's response for a confirmed instruction.

    `details` can be encoded as JSON, and has only data that may be shown and stored: no card numbers or
    secrets.
    """

    reference: str
    type: str
    status: str
    details: dict[str, str | int | bool] = field(default_factory=dict)
    #: The vendor's name for the customer, if known.
    customer_reference: str | None = None
    #: The account of the instruction according to the vendor, by one of its two numbers, if known.
    account_reference: str | None = None


def reference_in(answer: Mapping[str, Any], name: str) -> str | None:
    """Return the reference `name` in a vendor's response, or None if it has none that can be stored."""
    value = answer.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_REFERENCE or not value.isprintable():
        return None
    return value


class VendorClient(Protocol):
    """A vendor that can be asked about its payment instructions."""

    def retrieve_instruction(self, *, reference: str, type: str) -> PaymentInstructionDetails:
        """Return the instruction if the vendor has it with this type (section 4.11).

        Raise PaymentInstructionRejectedError if the vendor rejects it, PaymentVendorUnreachableError if an
        operator has to correct something first, and PaymentVendorUnavailableError if a later retry may
        succeed.
        """
        ...
