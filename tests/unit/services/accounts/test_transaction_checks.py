"""The report of everything that is wrong with posted transactions."""

from migration_service.errors import (
    ErrorItem,
    RequestFailedValidationError,
    TransactionIdAlreadyUsedError,
)
from migration_service.services.accounts.added_data import PostedBody
from migration_service.services.accounts.transaction_checks import check_transactions, first_error
from migration_service.states import Profile


def test_the_error_is_that_of_the_first_transaction_at_fault_and_lists_all_of_them() -> None:
    used = ErrorItem("transaction_id_already_used", "T-10 is used.", "transactions.10.transaction_id")
    whole = ErrorItem("not_a_dict", "Expected an object.", "transactions.9")
    supplier = ErrorItem("required", "This field is required.", "import_supplier")
    error = first_error([(TransactionIdAlreadyUsedError, used), (RequestFailedValidationError, whole)])
    assert (type(error), error.errors) == (RequestFailedValidationError, [whole, used])
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


def test_rules_are_checked_for_each_transaction() -> None:
    item = {"start_date": "2026-02-02", "end_date": "2026-02-01", "net_amount": 1}
    charge = {"transaction_id": "T", "type": "SUPPLY_CHARGE", "amount": 1, "line_items": [item]}
    checked = check_transactions(PostedBody({"transactions": [{}, charge]}), Profile.STRICT)
    assert checked.errors
    assert {(it.attr or "").rpartition("transactions.")[2][0] for it in checked.errors} == {"1"}
