"""Adding payment instructions to an account (sections 2.8 and 4.11).

The vendor is asked between two short transactions: `prepare_instruction`, `ask_vendor`, `add_instruction`.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.errors import PaymentVendorNotFoundError
from migration_service.models import PaymentInstruction, PaymentVendor
from migration_service.payment_vendors.factory import get_vendor
from migration_service.payment_vendors.protocol import PaymentInstructionDetails
from migration_service.services.access.tokens import Caller
from migration_service.services.accounts.added_data import (
    OpenAccount,
    PostedBody,
    open_account,
    raise_findings,
)


@dataclass(frozen=True, slots=True)
class InstructionOrder:
    """A payment instruction that may be added once its vendor has confirmed it."""

    account: OpenAccount
    vendor: PaymentVendor
    reference: str
    type: str
    #: It was added before, so the vendor is not asked again.
    exists: bool


def prepare_instruction(session: Session, caller: Caller, body: PostedBody) -> InstructionOrder:
    """Check everything that can be checked before the vendor is asked.

    `body.data` is what `schemas.added_data.PaymentInstructionRequest` loads. Raise
    ImportSupplierNotFoundInBodyError, AccountNotFoundInBodyError, RequestFailedValidationError or
    PaymentVendorNotFoundError.
    """
    account = open_account(session, caller, body, lock=False)
    raise_findings((), account)
    reference, instruction_type = body.data["reference"], body.data["type"]
    vendor = _get_vendor(session, body.data["vendor"])
    same = select(PaymentInstruction.id).where(
        PaymentInstruction.account_pk == account.id,
        PaymentInstruction.payment_vendor_pk == vendor.id,
        PaymentInstruction.reference == reference,
        PaymentInstruction.type == instruction_type,
    )
    exists = session.scalar(same) is not None
    return InstructionOrder(account, vendor, reference, instruction_type, exists)


def _get_vendor(session: Session, name: str) -> PaymentVendor:
    # Suppliers write STRIPE for stripe. If two vendors differ only in case, the exact name wins.
    vendor = session.scalar(
        select(PaymentVendor)
        .where(func.lower(PaymentVendor.name) == func.lower(name))
        .order_by((PaymentVendor.name == name).desc(), PaymentVendor.id)
        .limit(1)
    )
    if vendor is None:
        raise PaymentVendorNotFoundError(found=name)
    return vendor


def ask_vendor(order: InstructionOrder) -> PaymentInstructionDetails:
    """Return what the vendor says about the instruction. This takes seconds, so no transaction may be open.

    Raise PaymentInstructionRejectedError, PaymentVendorUnreachableError or PaymentVendorUnavailableError.
    """
    vendor = order.vendor
    adapter = get_vendor(vendor.name, vendor.kind, vendor.url, vendor.secret_env)
    return adapter.retrieve_instruction(reference=order.reference, type=order.type)


def add_instruction(
    session: Session, order: InstructionOrder, details: PaymentInstructionDetails | None
) -> dict[str, str]:
    """Store a confirmed instruction, and return the body of the response (section 4.11).

    Nothing changes if another request has added it meanwhile, or if `details` is None because it was added
    before.
    """
    if details is not None:
        session.execute(
            insert(PaymentInstruction)
            .values(
                account_pk=order.account.id,
                payment_vendor_pk=order.vendor.id,
                reference=order.reference,
                type=order.type,
                details=details.details,
            )
            .on_conflict_do_nothing(constraint="uq_payment_instruction_same")
        )
    number = order.account.service_account_number
    return {"service_account_number": number, "reference": order.reference}


def read_payment_instructions(session: Session, account_pk: int) -> list[dict[str, Any]]:
    """Return the payment instructions of an account in the order in which they were added."""
    rows = session.execute(
        select(
            PaymentVendor.name.label("vendor"),
            PaymentInstruction.reference,
            PaymentInstruction.type,
            PaymentInstruction.details,
            PaymentInstruction.created_at,
        )
        .join(PaymentVendor, PaymentVendor.id == PaymentInstruction.payment_vendor_pk)
        .where(PaymentInstruction.account_pk == account_pk)
        .order_by(PaymentInstruction.id)
    )
    return [dict(row) for row in rows.mappings()]
