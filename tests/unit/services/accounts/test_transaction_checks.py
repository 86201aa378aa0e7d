"""The report of everything that is wrong with posted transactions."""

from datetime import date

import pytest
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_service.errors import (
    ErrorItem,
    InvalidError,
    RequestFailedValidationError,
    TransactionIdAlreadyUsedError,
)
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import Addition, OpenAccount, PostedBody
from migration_service.services.accounts.transaction_checks import (
    check_transactions,
    first_error,
    open_checked_account,
)
from migration_service.services.accounts.transactions import Taken, add_transactions_to_accounts
from migration_service.services.setup.suppliers import KnownSupplier


def test_the_error_is_that_of_the_first_transaction_at_fault_and_lists_all_of_them() -> None:
    used = ErrorItem("transaction_id_already_used", "T-10 is used.", "transactions.10.transaction_id")
    whole = ErrorItem("not_a_dict", "Expected an object.", "transactions.9")
    supplier = ErrorItem("required", "This field is required.", "import_supplier")
    early = ErrorItem("invalid", "No.", "transactions.8.amount")
    of_form = [(RequestFailedValidationError, it) for it in (whole, early)]
    error = first_error([(TransactionIdAlreadyUsedError, used), *of_form])
    assert (type(error), error.errors) == (RequestFailedValidationError, [early, whole, used])
    assert error.detail == RequestFailedValidationError.default_detail
    of_none = [
        supplier,
        ErrorItem("not_a_list", "Expected a list.", "transactions"),
        ErrorItem("invalid", "No."),
    ]
    faults = [(RequestFailedValidationError, it) for it in of_none]
    assert first_error([(TransactionIdAlreadyUsedError, used), *faults]).errors == [*of_none, used]
    error = first_error([(TransactionIdAlreadyUsedError, used)])
    assert (type(error), error.detail) == (TransactionIdAlreadyUsedError, used.detail)


def test_an_account_that_does_not_exist_is_named_beside_the_errors_of_the_form(
    session: Session, known: KnownSupplier
) -> None:
    missing = ErrorItem("required", "This field is required.", "transactions")
    body = PostedBody({"import_supplier": known.code, "external_account_number": "nobody"}, errors=[missing])
    with pytest.raises(RequestFailedValidationError) as caught:
        open_checked_account(session, Caller(known.organisation_id, 1), body)
    assert [it.code for it in caught.value.errors] == ["required", "account_not_found"]


def test_a_transaction_id_that_is_used_is_refused_with_the_reason(
    session: Session, opened: OpenAccount
) -> None:
    payment = {"transaction_id": "T", "transaction_date": date(2026, 1, 1), "amount": 1, "type": "PAYMENT"}

    def add(amount: int) -> list[Taken] | InvalidError:
        addition = Addition(opened, {"transactions": [payment | {"amount": amount}]})
        (result,) = add_transactions_to_accounts(
            session, [addition], check_previously_added=False, force_add_to_current_statement=True
        )
        return result

    assert isinstance(add(1), list)
    for amount, what in ((1, "the same transaction"), (2, "a transaction of another amount or type")):
        error = add(amount)
        assert isinstance(error, TransactionIdAlreadyUsedError)
        assert error.detail == f"The transaction_id is already used by {what} of the account."


def test_rules_are_checked_for_each_transaction() -> None:
    item = {"start_date": date(2026, 2, 2), "end_date": date(2026, 2, 1), "net_amount": 1}
    charge = {"transaction_id": "T", "type": "SUPPLY_CHARGE", "amount": 1, "line_items": [item]}
    checked = check_transactions(PostedBody({"transactions": [{}, charge]}), Profile.STRICT, date(2026, 3, 1))
    assert checked.errors
    assert {(it.attr or "").rpartition("transactions.")[2][0] for it in checked.errors} == {"1"}
