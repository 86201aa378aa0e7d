"""What is asked of a payment vendor, and what its adapter returns."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

#: The message about a reference unknown to the vendor.
UNKNOWN_INSTRUCTION = "The payment vendor does not know this payment instruction."


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

    details: dict[str, str | int | bool] = field(default_factory=dict)
    #: The vendor's name for the customer, if known.
    customer_reference: str | None = None
    #: The account of the instruction according to the vendor, by one of its two numbers, if known.
    account_reference: str | None = None


#: Called with a reference and a type. Returns the instruction if the vendor has it with this type
#: (section 4.11).
#:
#: Raises PaymentInstructionRejectedError if the vendor rejects it, PaymentVendorUnreachableError if an
#: operator has to correct something first, and PaymentVendorUnavailableError if a later retry may succeed.
VendorClient: TypeAlias = Callable[[str, str], PaymentInstructionDetails]
