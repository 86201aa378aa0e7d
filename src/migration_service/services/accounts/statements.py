"""Adding historical statements to an account (sections 2.7 and 4.10)."""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Text, and_, bindparam, func, insert, literal, or_, select, text
from sqlalchemy.orm import Session

from migration_payloads.normal_form import STATEMENT
from migration_payloads.profile import Profile
from migration_payloads.rules.statements import (
    duplicate_statement_numbers,
    find_fault_of_gross_amount,
    gross_amount_not_in_cents,
)
from migration_payloads.schemas.messages import shown
from migration_payloads.schemas.statement import HistoricalStatementSchema
from migration_service import errors
from migration_service.db.base import one_of
from migration_service.models import Statement
from migration_service.origin import current_origin
from migration_service.services.access.callers import Caller
from migration_service.services.accounts import added_data
from migration_service.states import StatementOrigin

# Rules of payloads that do not apply here: statements can be sent again, and documents are optional.
_NOT_CHECKED = ("duplicate_statement_ids", "missing_statement_document")

_FIELDS = tuple(HistoricalStatementSchema().fields)


def add_historical_statements(
    session: Session, caller: Caller, body: added_data.PostedBody
) -> added_data.Accepted:
    """Add the statements that the account does not have yet. Existing ones are not changed.

    `body.data` is loaded by `schemas.added_data.StatementsRequest`. Return the validated data, which is the
    body of the response. Raise ImportSupplierNotFoundInBodyError, AccountNotFoundInBodyError,
    RequestFailedValidationError if a rule is broken, or HistoricalStatementAlreadyExistsError with every
    statement whose statement_id belongs to another statement. The caller then rolls back.
    """
    account = added_data.open_account(session, caller, body)
    checked = check_statements(body, *added_data.terms_of(account.supplier))
    checked.raise_errors()
    (added,) = add_statements_to_accounts(session, [added_data.Addition(account, body.data)])
    if isinstance(added, errors.ServiceError):
        raise added
    return added_data.Accepted(body.data, checked.warnings + added.warnings)


def check_statements(body: added_data.PostedBody, profile: Profile, today: date) -> added_data.Checked:
    """Return the findings of schema and rules in the statements of a body."""
    findings = added_data.find_faults(
        {"statements": body.data.get("statements", [])},
        profile,
        today,
        prefix=("statements",),
        below="statements",
        without=_NOT_CHECKED,
        faulty=[error.attr for error in body.errors if error.attr],
    )
    return added_data.check_body(body, findings, profile)


def add_statements_to_accounts(
    session: Session, additions: Sequence[added_data.Addition]
) -> list[added_data.Added | errors.InvalidError]:
    """Add the statements that the accounts do not have yet. Return the result of each addition.

    The caller must have locked the accounts and checked the rules. No statement of an addition is added if
    one of them has the statement_id of another statement, or a warning while the supplier is strict. The
    result of the addition is then the error.
    """
    books = _StatementBooks(session, additions)
    results = [_take(addition, books) for addition in additions]
    books.write()
    return results


class _StatementBooks:
    """The existing statements that posted ones may match, and the rows of the new ones."""

    def __init__(self, session: Session, additions: Sequence[added_data.Addition]) -> None:
        self._session = session
        posted = [(it.account.id, statement) for it in additions for statement in it.data["statements"]]
        #: Statements by account key and statement_id, and statement_ids by account key and number.
        self._known: dict[tuple[int, str], dict[str, Any]] = {}
        self._numbers: dict[tuple[int, str], str] = {}
        for row in _find_known(session, posted):
            values = zip(_FIELDS, row[1:], strict=True)
            self._known[row[0], row.statement_id] = {it: value for it, value in values if value is not None}
            self._numbers[row[0], row.number] = row.statement_id
        self._sums = _sum_transactions(session, {(key, statement["number"]) for key, statement in posted})
        self._rows: list[tuple[added_data.OpenAccount, dict[str, Any]]] = []

    def find(self, account: added_data.OpenAccount, statement_id: str) -> dict[str, Any] | None:
        """Return the account's statement with this statement_id, or None."""
        return self._known.get((account.id, statement_id))

    def find_faults(
        self, account: added_data.OpenAccount, statement: dict[str, Any], index: int
    ) -> list[errors.ErrorItem]:
        """Return the warnings about a new statement in view of its account. `index` is its position."""
        faults = []
        number, gross_amount = statement["number"], statement["gross_amount"]
        if other := self._numbers.get((account.id, number)):
            detail = f"{shown(number)} is already the number of the account's statement {shown(other)}."
            faults.append(
                errors.ErrorItem(duplicate_statement_numbers.code, detail, f"statements.{index}.number")
            )
        sums = self._sums.get((account.id, number), ())
        # The rule has already reported amounts with a fraction of a cent.
        if not gross_amount % 1 and (detail := find_fault_of_gross_amount(gross_amount, sums) or ""):
            attr = f"statements.{index}.gross_amount"
            faults.append(errors.ErrorItem(gross_amount_not_in_cents.code, detail, attr))
        return faults

    def add(self, account: added_data.OpenAccount, statement: dict[str, Any]) -> None:
        """Add a statement and remember it."""
        self._known[account.id, statement["statement_id"]] = statement
        self._numbers.setdefault((account.id, statement["number"]), statement["statement_id"])
        self._rows.append((account, statement))

    def write(self) -> None:
        """Write the added statements, each at the next position of its account."""
        if not self._rows:
            return
        positions = _count_added(self._session, {account.id for account, _ in self._rows})
        rows = []
        for account, statement in self._rows:
            rows.append(
                {
                    "account_pk": account.id,
                    "position": positions[account.id],
                    "origin": StatementOrigin.ADDED,
                    **added_data.part_values(Statement, statement, account.supplier),
                    **current_origin().trace(),
                }
            )
            # A context is never sent here. None would be stored as the JSON value null.
            del rows[-1]["statement_pdf_context"]
            positions[account.id] += 1
        self._session.execute(insert(Statement), rows)


def _take(addition: added_data.Addition, books: _StatementBooks) -> added_data.Added | errors.InvalidError:
    new: dict[str, dict[str, Any]] = {}
    is_new: list[bool] = []
    faults, warnings = [], []
    for index, statement in enumerate(addition.data["statements"]):
        statement_id = statement["statement_id"]
        same = books.find(addition.account, statement_id) or new.setdefault(statement_id, statement)
        is_new.append(same is statement)
        if same is statement:
            warnings += books.find_faults(addition.account, statement, index)
        elif any(STATEMENT.find_differences(statement, same)):
            detail = errors.HistoricalStatementAlreadyExistsError.default_detail
            attr = f"statements.{index}.statement_id"
            faults.append(errors.ErrorItem(errors.HistoricalStatementAlreadyExistsError.code, detail, attr))
    if faults:
        return errors.HistoricalStatementAlreadyExistsError(errors=faults)
    if warnings and Profile(addition.account.supplier.profile) is Profile.STRICT:
        return errors.RequestFailedValidationError(errors=warnings)
    for statement in new.values():
        books.add(addition.account, statement)
    return added_data.Added(is_new, warnings)


def _find_known(session: Session, posted: Sequence[tuple[int, dict[str, Any]]]) -> Sequence[Any]:
    """Return the statements of these accounts with the statement_id or the number of a posted one."""
    wanted = (
        func.unnest(
            literal([key for key, _ in posted], ARRAY(BigInteger)),
            literal([statement["statement_id"] for _, statement in posted], ARRAY(Text)),
            literal([statement["number"] for _, statement in posted], ARRAY(Text)),
        )
        .table_valued("account_pk", "statement_id", "number", name="posted")
        .render_derived()
    )
    is_same = or_(wanted.c.statement_id == Statement.statement_id, wanted.c.number == Statement.number)
    return session.execute(
        select(Statement.account_pk, *(getattr(Statement, name) for name in _FIELDS)).join(
            wanted, and_(wanted.c.account_pk == Statement.account_pk, is_same)
        )
    ).all()


def _sum_transactions(
    session: Session, invoices: set[tuple[int, str]]
) -> dict[tuple[int, str], list[Decimal]]:
    """Return the sums of the transactions of invoices in euros: the charges and the payments."""
    values = {"accounts": [key for key, _ in invoices], "numbers": [number for _, number in invoices]}
    sums: dict[tuple[int, str], list[Decimal]] = {}
    for row in session.execute(_SUMS, values):
        sums.setdefault((row.account_pk, row.number), []).append(row.amount)
    return sums


_SUMS = text("""
    SELECT account_pk, posted.number, type IN ('PAYMENT', 'REPAYMENT') AS is_paid,
           sum(CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN amount ELSE -amount END) AS amount
    FROM unnest(:accounts, :numbers) AS posted (account_pk, number) JOIN "transaction" USING (account_pk)
    WHERE associated_invoice_number = posted.number
    GROUP BY 1, 2, 3
""").bindparams(bindparam("accounts", type_=ARRAY(BigInteger)), bindparam("numbers", type_=ARRAY(Text)))


def _count_added(session: Session, account_pks: set[int]) -> Counter[int]:
    counted = session.execute(
        # Not their number, because some may have been taken back.
        select(Statement.account_pk, func.max(Statement.position) + 1)
        .where(
            one_of(Statement.account_pk.expression, account_pks), Statement.origin == StatementOrigin.ADDED
        )
        .group_by(Statement.account_pk)
    )
    return Counter({row[0]: int(row[1] or 0) for row in counted})
