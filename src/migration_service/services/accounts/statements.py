"""Adding historical statements to an account (sections 2.7 and 4.10)."""

from typing import Any

from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import ErrorItem, HistoricalStatementAlreadyExistsError
from migration_service.models import Statement
from migration_service.origin import current_origin
from migration_service.schemas.statement import HistoricalStatementSchema
from migration_service.services.access.tokens import Caller
from migration_service.services.accounts.added_data import (
    OpenAccount,
    PostedBody,
    check_fragment,
    open_account,
    part_values,
)
from migration_service.states import StatementOrigin

_FIELDS = tuple(HistoricalStatementSchema().fields)

# A statement that already exists may be sent again, and here its document is optional.
_NOT_CHECKED = ("duplicate_statement_ids", "duplicate_statement_numbers", "missing_statement_document")


def add_historical_statements(session: Session, caller: Caller, body: PostedBody) -> dict[str, Any]:
    """Add the statements that the account does not have yet. One that already exists changes nothing.

    `body.data` is what `schemas.added_data.StatementsRequest` loads. Return the validated data, which is the
    body of the response. Raise ImportSupplierNotFoundInBodyError, AccountNotFoundInBodyError,
    RequestFailedValidationError if a rule is broken, or HistoricalStatementAlreadyExistsError with every
    statement whose statement_id another statement has. The caller then rolls back.
    """
    account = open_account(session, caller, body)
    statements: list[dict[str, Any]] = body.data["statements"]
    check_fragment(
        {"statements": statements},
        account,
        prefix=("statements",),
        below="statements",
        without=_NOT_CHECKED,
    )
    known = _find_known(session, account, {it["statement_id"] for it in statements})
    added, errors = [], []
    for index, statement in enumerate(statements):
        same = known.setdefault(statement["statement_id"], statement)
        if same is statement:
            added.append(statement)
        elif same != statement:
            detail = HistoricalStatementAlreadyExistsError.default_detail
            attr = f"statements.{index}.statement_id"
            errors.append(ErrorItem(HistoricalStatementAlreadyExistsError.code, detail, attr))
    if errors:
        raise HistoricalStatementAlreadyExistsError(errors=errors)
    if added:
        _write(session, account, added)
    return body.data


def _find_known(session: Session, account: OpenAccount, statement_ids: set[str]) -> dict[str, dict[str, Any]]:
    found = session.execute(
        select(*(getattr(Statement, name) for name in _FIELDS)).where(
            Statement.account_pk == account.id, one_of(Statement.statement_id.expression, statement_ids)
        )
    ).mappings()
    return {
        row["statement_id"]: {name: value for name, value in row.items() if value is not None}
        for row in found
    }


def _write(session: Session, account: OpenAccount, statements: list[dict[str, Any]]) -> None:
    own = Statement.account_pk == account.id, Statement.origin == StatementOrigin.ADDED
    position = session.scalar(select(func.count()).select_from(Statement).where(*own)) or 0
    rows = [
        {
            "account_pk": account.id,
            "position": position + i,
            "origin": StatementOrigin.ADDED,
            **part_values(Statement, statement, account.supplier),
            **current_origin().trace(),
        }
        for i, statement in enumerate(statements)
    ]
    # A context is never sent here, and None would be stored as the JSON value null.
    for row in rows:
        del row["statement_pdf_context"]
    session.execute(insert(Statement), rows)
