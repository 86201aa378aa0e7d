"""The checks of posted transactions that need no ledger, and the reporting of all faults (section 4.9)."""

from collections.abc import Sequence
from datetime import date
from typing import TypeAlias

from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.rules.account import OPEN_TRANSACTIONS
from migration_service.errors import ErrorItem, InvalidError, RequestFailedValidationError
from migration_service.services.access.callers import Caller
from migration_service.services.accounts import added_data

#: A finding, and the class of error with which the request fails if it is the first fault.
Fault: TypeAlias = tuple[type[InvalidError], ErrorItem]

# Duplicates and dates have separate checks, because such transactions may be skipped or moved.
_NOT_CHECKED = ("duplicate_transaction_ids", "transaction_in_future")


def open_checked_account(
    session: Session, caller: Caller, body: added_data.PostedBody
) -> tuple[added_data.OpenAccount, added_data.Checked]:
    """Lock and return the account that a body names, with the findings of schema and rules in the body.

    If the account is not found, raise the error of `open_account`, or `first_error` if the body has other
    faults.
    """
    account, refusal = None, None
    if body.data.keys() >= {"import_supplier", "external_account_number"}:
        try:
            account = added_data.open_account(session, caller, body)
        except InvalidError as error:
            refusal = error
    supplier = account.supplier if account else added_data.find_supplier(session, caller, body)
    checked = check_transactions(body, *added_data.terms_of(supplier))
    if account is None and refusal is not None:
        if not checked.errors:
            raise refusal
        raise first_error(as_faults([*checked.errors, *refusal.errors]))
    if account is None:
        raise first_error(as_faults(checked.errors))
    return account, checked


def as_faults(errors: Sequence[ErrorItem]) -> list[Fault]:
    """Return the errors of schema and rules as faults."""
    return [(RequestFailedValidationError, error) for error in errors]


def first_error(faults: Sequence[Fault]) -> InvalidError:
    """Return the error of the first faulty transaction. It lists all faults in order."""
    ordered = sorted(faults, key=lambda fault: _index(fault[1]))
    error_class, first = ordered[0]
    detail = None if error_class is RequestFailedValidationError else first.detail
    return error_class(detail, errors=[item for _, item in ordered])


def check_transactions(body: added_data.PostedBody, profile: Profile, today: date) -> added_data.Checked:
    """Return the findings of schema and rules in a body."""
    findings = added_data.find_faults(
        {"ledgers": [{OPEN_TRANSACTIONS: body.data.get("transactions", [])}]},
        profile,
        today,
        prefix=("ledgers", 0, OPEN_TRANSACTIONS),
        below="transactions",
        without=_NOT_CHECKED,
        faulty=[error.attr for error in body.errors if error.attr],
    )
    return added_data.check_body(body, findings, profile)


def _index(item: ErrorItem) -> int:
    """Return the position of the transaction with the error, or -1 if it concerns none."""
    path = (item.attr or "").split(".")
    return int(path[1]) if path[0] == "transactions" and len(path) > 1 else -1
