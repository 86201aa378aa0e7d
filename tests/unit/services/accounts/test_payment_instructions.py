"""Payment instructions: which one exists already, and what is locked before and after the vendor answers."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import func, update
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_service import errors
from migration_service.models import Account, ImportSupplier, PaymentVendor
from migration_service.payment_vendors.protocol import PaymentInstructionDetails, VendorKind
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import OpenAccount, PostedBody
from migration_service.services.accounts.payment_instructions import (
    find_instruction,
    prepare_instruction,
    store_instruction,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.setup.vendors import create_payment_vendor
from support.imported_account import ImportedAccount

FreeLocks = Callable[[OpenAccount], list[str]]


@pytest.fixture
def vendor(session: Session) -> PaymentVendor:
    return create_payment_vendor(session, "one", kind=VendorKind.HTTP, url="https://vendor.example/api")


def test_an_account_is_not_locked_while_its_vendor_is_asked_and_cannot_go_while_the_instruction_is_stored(
    session: Session,
    account: ImportedAccount,
    known: KnownSupplier,
    vendor: PaymentVendor,
    free_locks: FreeLocks,
) -> None:
    body = PostedBody(account.pair | {"vendor": vendor.name, "reference": "r", "type": "CARD"})
    order = prepare_instruction(session, Caller(known.organisation_id, 1), body)
    assert free_locks(order.account) == ["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]
    assert store_instruction(session, order, PaymentInstructionDetails())
    assert free_locks(order.account) == ["NO KEY UPDATE", "SHARE", "KEY SHARE"]


def test_an_unknown_field_is_an_error_under_the_strict_profile(
    session: Session, account: ImportedAccount, known: KnownSupplier, vendor: PaymentVendor
) -> None:
    data = account.pair | {"vendor": vendor.name, "reference": "r", "type": "CARD"}
    body = PostedBody(data, unknown_fields=[errors.ErrorItem("unknown_field", "No such field.", "colour")])
    caller = Caller(known.organisation_id, 1)
    assert not prepare_instruction(session, caller, body).exists
    session.execute(update(ImportSupplier).values(profile=Profile.STRICT))
    with pytest.raises(errors.RequestFailedValidationError) as caught:
        prepare_instruction(session, caller, body)
    assert caught.value.errors == body.unknown_fields


def test_an_account_that_was_undone_or_erased_meanwhile_gets_no_instruction(
    session: Session, account: ImportedAccount, opened: OpenAccount, vendor: PaymentVendor
) -> None:
    data = account.pair | {"vendor": vendor.name, "reference": "r", "type": "CARD"}
    order = find_instruction(session, opened, data)
    with pytest.raises(errors.AccountNotFoundInBodyError):
        store_instruction(
            session, replace(order, account=replace(opened, id=opened.id + 1)), PaymentInstructionDetails()
        )
    session.execute(update(Account).where(Account.id == opened.id).values(erased_at=func.now()))
    with pytest.raises(errors.AccountErasedError):
        store_instruction(session, order, PaymentInstructionDetails())
