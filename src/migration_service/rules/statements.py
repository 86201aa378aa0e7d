"""Rules for statements, and for the transactions that name them."""

from collections.abc import Iterator

from migration_service.rules.account import CheckedAccount
from migration_service.rules.rule import Fault, Severity, rule
from migration_service.schemas.messages import shown


@rule(Severity.ERROR, remedy="Send each statement once, with its own statement_id.")
def duplicate_statement_ids(account: CheckedAccount) -> Iterator[Fault]:
    """Two statements have the same statement_id."""
    return _find_repeated(account, "statement_id")


@rule(Severity.WARNING, remedy="Give each statement its own invoice number.")
def duplicate_statement_numbers(account: CheckedAccount) -> Iterator[Fault]:
    """Two statements have the same number, so that transactions cannot tell which one they belong to."""
    return _find_repeated(account, "number")


def _find_repeated(account: CheckedAccount, field: str) -> Iterator[Fault]:
    if len(account.statements) < 2:
        return
    first: dict[str, int] = {}
    for i, statement in enumerate(account.statements):
        value = statement.get(field)
        if value and first.setdefault(value, i) != i:
            yield (
                ("statements", i, field),
                f"{shown(value)} is already the {field} of statements.{first[value]}.",
            )


@rule(Severity.WARNING, remedy="Correct associated_invoice_number, or send the statement it names.")
def statement_not_found_for_invoice_number(account: CheckedAccount) -> Iterator[Fault]:
    """Statements are given, but none has the number that a transaction names as its invoice."""
    if not account.statements:
        return
    numbers = {statement.get("number") for statement in account.statements}
    if None in numbers:  # the transaction may mean the statement whose number is at fault
        return
    for path, transaction in account.transactions:
        number = transaction.get("associated_invoice_number")
        if number and number not in numbers:
            yield (
                (*path, "associated_invoice_number"),
                f"No statement has the number {shown(number)}: correct it, or send the statement.",
            )


@rule(Severity.WARNING, remedy="Correct the date: a historical statement is about days that have passed.")
def statement_period_end_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A statement's bill period ends after today."""
    return _find_future(account, "bill_period_to_date", "bill period ends")


@rule(Severity.WARNING, remedy="Correct the date: a historical statement has already been issued.")
def statement_issued_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A statement is issued after today."""
    return _find_future(account, "issued_date", "statement is issued")


def _find_future(account: CheckedAccount, field: str, what: str) -> Iterator[Fault]:
    for i, statement in enumerate(account.statements):
        day = statement.get(field)
        if day and day > account.today:
            yield (
                ("statements", i, field),
                f"The {what} on {day}, which is after today, {account.today}.",
            )


@rule(Severity.WARNING, remedy="Send statement_path, or a statement_pdf_context to make the document from.")
def missing_statement_document(account: CheckedAccount) -> Iterator[Fault]:
    """A statement has neither a document nor the context to make one from."""
    for i, statement in enumerate(account.statements):
        if statement.get("statement_path") or statement.get("statement_pdf_context"):
            continue
        if not account.is_faulty("statements", i, "statement_pdf_context"):
            yield (
                ("statements", i, "statement_path"),
                "The statement has no document: send statement_path, or a statement_pdf_context.",
            )
