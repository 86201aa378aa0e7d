"""Adding payment instructions to an account (sections 2.8 and 4.11).

The vendor is asked between two short transactions: `prepare_instruction`, `ask_vendor`, `add_instruction`.
"""

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_service import errors
from migration_service.models import Account, ImportSupplier, PaymentInstruction, PaymentVendor
from migration_service.origin import current_origin
from migration_service.payment_vendors.protocol import UNKNOWN_INSTRUCTION, PaymentInstructionDetails
from migration_service.services.access.callers import Caller
from migration_service.services.accounts import added_data
from migration_service.services.setup.vendors import get_payment_vendor


@dataclass(frozen=True, slots=True)
class InstructionOrder:
    """A payment instruction that may be added once its vendor has confirmed it."""

    account: added_data.OpenAccount
    external_account_number: str
    vendor: PaymentVendor
    reference: str
    type: str
    #: Whether it exists already, so that the vendor is not asked again.
    exists: bool
    warnings: list[errors.ErrorItem] = field(default_factory=list)


def prepare_instruction(session: Session, caller: Caller, body: added_data.PostedBody) -> InstructionOrder:
    """Run all checks that are possible before the vendor is asked.

    `body.data` is loaded by `schemas.added_data.PaymentInstructionRequest`. Raise
    ImportSupplierNotFoundInBodyError, AccountNotFoundInBodyError, RequestFailedValidationError or
    PaymentVendorNotFoundError.
    """
    account = added_data.open_account(session, caller, body, lock=False)
    checked = check_instruction(body, *added_data.terms_of(account.supplier))
    checked.raise_errors()
    return replace(find_instruction(session, account, body.data), warnings=checked.warnings)


def check_instruction(body: added_data.PostedBody, profile: Profile, _today: date) -> added_data.Checked:
    """Return the findings of the schema in a body. There are no rules for payment instructions."""
    return added_data.check_body(body, [], profile)


def find_instruction(
    session: Session, account: added_data.OpenAccount, data: dict[str, Any]
) -> InstructionOrder:
    """Return the payment instruction in a body for an account. Raise PaymentVendorNotFoundError."""
    reference, instruction_type = data["reference"], data["type"]
    vendor = get_payment_vendor(session, account.supplier.organisation_id, data["vendor"])
    same = select(PaymentInstruction.id).where(
        PaymentInstruction.account_pk == account.id,
        PaymentInstruction.payment_vendor_pk == vendor.id,
        PaymentInstruction.reference == reference,
        PaymentInstruction.type == instruction_type,
    )
    exists = session.scalar(same) is not None
    number = data["external_account_number"]
    return InstructionOrder(account, number, vendor, reference, instruction_type, exists)


def ask_vendor(order: InstructionOrder) -> PaymentInstructionDetails:
    """Return the vendor's response to the instruction. This takes seconds, so no transaction may be open.

    Raise PaymentVendorUnreachableError, PaymentVendorUnavailableError, and PaymentInstructionRejectedError,
    including for an instruction that belongs to another account according to the vendor.
    """
    # Imported here, because the HTTP client takes memory that only processes that ask vendors need.
    from migration_service.payment_vendors.factory import get_vendor  # noqa: PLC0415

    vendor = order.vendor
    organisation_id = order.account.supplier.organisation_id
    adapter = get_vendor(vendor.name, vendor.kind, vendor.url, vendor.secret_env, organisation_id)
    details = adapter(order.reference, order.type)
    ours = (order.external_account_number, order.account.service_account_number)
    if details.account_reference is not None and details.account_reference not in ours:
        raise errors.PaymentInstructionRejectedError(
            "The payment vendor has this payment instruction for another account."
        )
    return details


def add_instruction(
    session: Session, order: InstructionOrder, details: PaymentInstructionDetails | None
) -> added_data.Accepted:
    """Store a confirmed instruction, and return the body of the response (section 4.11).

    Nothing changes if `details` is None because it exists already. Raise the errors of `store_instruction`.
    """
    if details is not None:
        store_instruction(session, order, details)
    number = order.account.service_account_number
    return added_data.Accepted(
        {"service_account_number": number, "reference": order.reference}, order.warnings
    )


def store_instruction(session: Session, order: InstructionOrder, details: PaymentInstructionDetails) -> bool:
    """Store a confirmed instruction. Return False if it exists already.

    Raise PaymentInstructionRejectedError if an account of another organisation has an instruction for the
    same vendor customer, and AccountNotFoundInBodyError or AccountErasedError if the account was undone or
    erased while the vendor was asked.
    """
    _require_still_there(session, order.account.id)
    if _is_of_another_organisation(session, order, details):
        # The same message as for an unknown reference, to reveal nothing about other organisations.
        raise errors.PaymentInstructionRejectedError(UNKNOWN_INSTRUCTION)
    stored = session.execute(
        insert(PaymentInstruction)
        .values(
            account_pk=order.account.id,
            payment_vendor_pk=order.vendor.id,
            reference=order.reference,
            type=order.type,
            details=details.details,
            customer_reference=details.customer_reference,
            account_reference=details.account_reference,
            **current_origin().trace(),
        )
        .on_conflict_do_nothing(constraint="uq_payment_instruction_same")
        .returning(PaymentInstruction.id)
    )
    return stored.first() is not None


def _require_still_there(session: Session, account_pk: int) -> None:
    # Undo and erasure lock the whole row. This lock waits for them, and blocks them until the commit.
    account = select(Account.erased_at).where(Account.id == account_pk)
    row = session.execute(account.with_for_update(read=True, key_share=True)).one_or_none()
    if row is None:
        raise errors.AccountNotFoundInBodyError
    if row.erased_at is not None:
        raise errors.AccountErasedError


def _is_of_another_organisation(
    session: Session, order: InstructionOrder, details: PaymentInstructionDetails
) -> bool:
    if details.customer_reference is None:
        return False
    others = (
        select(PaymentInstruction.id)
        .join(Account, Account.id == PaymentInstruction.account_pk)
        .join(ImportSupplier, ImportSupplier.id == Account.import_supplier_id)
        .where(
            PaymentInstruction.payment_vendor_pk == order.vendor.id,
            ImportSupplier.organisation_id != order.account.supplier.organisation_id,
            PaymentInstruction.customer_reference == details.customer_reference,
        )
    )
    return session.scalar(others.limit(1)) is not None


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
