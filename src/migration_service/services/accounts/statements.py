"""Adding historical statements to an account (sections 2.7 and 4.10)."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, and_, func, insert, literal, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import ErrorItem, HistoricalStatementAlreadyExistsError, ServiceError
from migration_service.models import Statement
from migration_service.origin import current_origin
from migration_service.rules.rule import Finding
from migration_service.schemas.statement import HistoricalStatementSchema
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.added_data import (
    Addition,
    OpenAccount,
    PostedBody,
    find_faults,
    open_account,
    part_values,
    raise_findings,
)
from migration_service.states import Profile, StatementOrigin

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
    raise_findings(find_statement_faults(body.data, Profile(account.supplier.profile)), account)
    (added,) = add_statements_to_accounts(session, [Addition(account, body.data)])
    if isinstance(added, ServiceError):
        raise added
    return body.data


def find_statement_faults(data: dict[str, Any], profile: Profile) -> list[Finding]:
    """Return what the rules find in the statements of a body."""
    fragment = {"statements": data["statements"]}
    return find_faults(fragment, profile, prefix=("statements",), below="statements", without=_NOT_CHECKED)


def add_statements_to_accounts(
    session: Session, additions: Sequence[Addition]
) -> list[list[bool] | HistoricalStatementAlreadyExistsError]:
    """Add the statements that their accounts do not have yet. Return, for each addition, which were new.

    The caller has locked the accounts, and the rules have been checked. Nothing of an addition is added if
    one of its statements has the statement_id of another statement: its result is the error.
    """
    known = _find_known(session, additions)
    rows: list[tuple[OpenAccount, dict[str, Any]]] = []
    results = [_take(addition, known, rows) for addition in additions]
    if rows:
        _write(session, rows)
    return results


#: The statements of accounts by the keys of their accounts and their statement_ids.
_Known = dict[tuple[int, str], dict[str, Any]]


def _take(
    addition: Addition, known: _Known, rows: list[tuple[OpenAccount, dict[str, Any]]]
) -> list[bool] | HistoricalStatementAlreadyExistsError:
    new: _Known = {}
    is_new: list[bool] = []
    errors = []
    for index, statement in enumerate(addition.data["statements"]):
        key = addition.account.id, statement["statement_id"]
        same = known.get(key) or new.setdefault(key, statement)
        is_new.append(same is statement)
        if same is not statement and same != statement:
            detail = HistoricalStatementAlreadyExistsError.default_detail
            attr = f"statements.{index}.statement_id"
            errors.append(ErrorItem(HistoricalStatementAlreadyExistsError.code, detail, attr))
    if errors:
        return HistoricalStatementAlreadyExistsError(errors=errors)
    known |= new
    rows += [(addition.account, statement) for statement in new.values()]
    return is_new


def _find_known(session: Session, additions: Sequence[Addition]) -> _Known:
    posted = {
        (it.account.id, statement["statement_id"]) for it in additions for statement in it.data["statements"]
    }
    wanted = (
        func.unnest(
            literal([account for account, _ in posted], ARRAY(BigInteger)),
            literal([statement_id for _, statement_id in posted], ARRAY(Text)),
        )
        .table_valued("account_pk", "statement_id", name="posted")
        .render_derived()
    )
    found = session.execute(
        select(Statement.account_pk, *(getattr(Statement, name) for name in _FIELDS)).join(
            wanted,
            and_(
                wanted.c.account_pk == Statement.account_pk, wanted.c.statement_id == Statement.statement_id
            ),
        )
    )
    return {
        (row[0], row.statement_id): {
            name: value for name, value in zip(_FIELDS, row[1:], strict=True) if value is not None
        }
        for row in found
    }


def _write(session: Session, statements: list[tuple[OpenAccount, dict[str, Any]]]) -> None:
    counted = session.execute(
        select(Statement.account_pk, func.count())
        .where(
            one_of(Statement.account_pk.expression, {account.id for account, _ in statements}),
            Statement.origin == StatementOrigin.ADDED,
        )
        .group_by(Statement.account_pk)
    )
    positions = Counter({row[0]: int(row[1]) for row in counted})
    rows = []
    for account, statement in statements:
        rows.append(
            {
                "account_pk": account.id,
                "position": positions[account.id],
                "origin": StatementOrigin.ADDED,
                **part_values(Statement, statement, account.supplier),
                **current_origin().trace(),
            }
        )
        # A context is never sent here, and None would be stored as the JSON value null.
        del rows[-1]["statement_pdf_context"]
        positions[account.id] += 1
    session.execute(insert(Statement), rows)
