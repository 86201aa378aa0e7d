"""The protocol of payment vendors' adapters."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

#: What is said of a reference that the vendor does not know.
UNKNOWN_INSTRUCTION = "The payment vendor does not know this payment instruction."

_LONGEST_REFERENCE = 255


class VendorKind(enum.StrEnum):
    """The interface that a vendor speaks (`vendors create --kind`)."""

    #: The plain JSON interface of docs/operators/payment-vendors.md, which any gateway can offer.
    HTTP = "http"
    #: Stripe's public HTTP interface.
    STRIPE = "stripe"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentInstructionDetails:
    """What the vendor returned for an instruction that it confirmed.

    `details` can be written as JSON, and has only what may be shown and kept: no card number, no secret.
    """

    reference: str
    type: str
    status: str
    details: dict[str, str | int | bool] = field(default_factory=dict)
    #: What the vendor calls its customer, if it says so.
    customer_reference: str | None = None
    #: The account that the vendor has it for, by one of the account's two numbers, if it says so.
    account_reference: str | None = None


def reference_in(answer: Mapping[str, Any], name: str) -> str | None:
    """Return a reference that a vendor's answer has under `name`; None if it has none that can be kept."""
    value = answer.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_REFERENCE or not value.isprintable():
        return None
    return value


class VendorClient(Protocol):
    """A vendor that can be asked about the payment instructions it keeps."""

    def retrieve_instruction(self, *, reference: str, type: str) -> PaymentInstructionDetails:
        """Return the instruction if the vendor has it and it is of this type (section 4.11).

        Raise PaymentInstructionRejectedError if the vendor rejects it, PaymentVendorUnreachableError if the
        vendor cannot be asked until somebody changes something, and PaymentVendorUnavailableError if a later
        retry may succeed.
        """
        ...
