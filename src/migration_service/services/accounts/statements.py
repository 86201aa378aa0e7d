"""Adding historical statements to an account (sections 2.7 and 4.10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from sqlalchemy.orm import Session

from migration_payloads.normal_form import STATEMENT
from migration_payloads.profile import Profile
from migration_service.errors import (
    ErrorItem,
    HistoricalStatementAlreadyExistsError,
    InvalidError,
    RequestFailedValidationError,
    ServiceError,
)
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import (
    Accepted,
    Addition,
    Checked,
    PostedBody,
    check_body,
    find_faults,
    open_account,
    terms_of,
)
from migration_service.services.accounts.statement_books import StatementBooks

# Rules of payloads that do not apply here: statements can be sent again, and documents are optional.
_NOT_CHECKED = ("duplicate_statement_ids", "missing_statement_document")


@dataclass(frozen=True, slots=True)
class AddedStatements:
    """The result of the statements of an accepted body."""

    #: Whether each statement was added. The others existed already.
    is_new: list[bool]
    #: Warnings about the statements in view of the account.
    warnings: list[ErrorItem]


def add_historical_statements(session: Session, caller: Caller, body: PostedBody) -> Accepted:
    """Add the statements that the account does not have yet. Existing ones are not changed.

    `body.data` is loaded by `schemas.added_data.StatementsRequest`. Return the validated data, which is the
    body of the response. Raise ImportSupplierNotFoundInBodyError, AccountNotFoundInBodyError,
    RequestFailedValidationError if a rule is broken, or HistoricalStatementAlreadyExistsError with every
    statement whose statement_id belongs to another statement. The caller then rolls back.
    """
    account = open_account(session, caller, body)
    checked = check_statements(body, *terms_of(account.supplier))
    checked.raise_errors()
    (added,) = add_statements_to_accounts(session, [Addition(account, body.data)])
    if isinstance(added, ServiceError):
        raise added
    return Accepted(body.data, checked.warnings + added.warnings)


def check_statements(body: PostedBody, profile: Profile, today: date) -> Checked:
    """Return the findings of schema and rules in the statements of a body."""
    findings = find_faults(
        {"statements": body.data.get("statements", [])},
        profile,
        today,
        prefix=("statements",),
        below="statements",
        without=_NOT_CHECKED,
        faulty=[error.attr for error in body.errors if error.attr],
    )
    return check_body(body, findings, profile)


def add_statements_to_accounts(
    session: Session, additions: Sequence[Addition]
) -> list[AddedStatements | InvalidError]:
    """Add the statements that the accounts do not have yet. Return the result of each addition.

    The caller must have locked the accounts and checked the rules. No statement of an addition is added if
    one of them has the statement_id of another statement, or a warning while the supplier is strict. The
    result of the addition is then the error.
    """
    books = StatementBooks(session, additions)
    results = [_take(addition, books) for addition in additions]
    books.write()
    return results


def _take(addition: Addition, books: StatementBooks) -> AddedStatements | InvalidError:
    new: dict[str, dict[str, Any]] = {}
    is_new: list[bool] = []
    errors, warnings = [], []
    for index, statement in enumerate(addition.data["statements"]):
        statement_id = statement["statement_id"]
        same = books.find(addition.account, statement_id) or new.setdefault(statement_id, statement)
        is_new.append(same is statement)
        if same is statement:
            warnings += books.find_faults(addition.account, statement, index)
        elif any(STATEMENT.find_differences(statement, same)):
            detail = HistoricalStatementAlreadyExistsError.default_detail
            attr = f"statements.{index}.statement_id"
            errors.append(ErrorItem(HistoricalStatementAlreadyExistsError.code, detail, attr))
    if errors:
        return HistoricalStatementAlreadyExistsError(errors=errors)
    if warnings and Profile(addition.account.supplier.profile) is Profile.STRICT:
        return RequestFailedValidationError(errors=warnings)
    for statement in new.values():
        books.add(addition.account, statement)
    return AddedStatements(is_new, warnings)
