"""Rules for statements, and for the transactions that name them."""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from migration_payloads.rules.account import CheckedAccount, Item, Path
from migration_payloads.rules.balances import ZERO, signed_amount
from migration_payloads.rules.rule import Fault, Severity, find_future, find_repeated, rule
from migration_payloads.schemas.messages import shown


@rule(Severity.ERROR, remedy="Send each statement once, with its own statement_id.")
def duplicate_statement_ids(account: CheckedAccount) -> Iterator[Fault]:
    """Two statements have the same statement_id."""
    return _find_repeated(account, "statement_id")


@rule(Severity.WARNING, remedy="Give each statement its own invoice number.")
def duplicate_statement_numbers(account: CheckedAccount) -> Iterator[Fault]:
    """Two statements have the same number, so that transactions cannot tell which one they belong to."""
    if found := list(_find_repeated(account, "number")):
        # A repeated statement_id is a separate finding, or the same statement sent again.
        repeated = {path[1] for path, _ in _find_repeated(account, "statement_id")}
        yield from (fault for fault in found if fault[0][1] not in repeated)


def _find_repeated(account: CheckedAccount, field: str) -> Iterator[Fault]:
    for path, value, first in find_repeated(account.statements, field):
        yield (*path, field), f"{shown(value)} is already the {field} of statements.{first[1]}."


@rule(Severity.WARNING, remedy="Send gross_amount in euro cents: 4928 for a bill of 49.28 euros.")
def gross_amount_not_in_cents(account: CheckedAccount) -> Iterator[Fault]:
    """A gross_amount has a fraction of a cent, or is the sum in euros of the transactions of its invoice."""
    if not account.statements:
        return
    charged = _sum_by_invoice([*account.supply_charges, *account.charges_and_credits])
    paid = _sum_by_invoice(account.payments)
    for path, statement in account.statements:
        number = statement.get("number")
        sums = [each[number] for each in (charged, paid) if number in each]
        if detail := find_fault_of_gross_amount(statement.get("gross_amount"), sums):
            yield (*path, "gross_amount"), detail


def find_fault_of_gross_amount(gross_amount: Decimal | None, sums: Iterable[Decimal]) -> str | None:
    """Return why an amount is not in cents, or None. `sums` are those of its transactions, in euros."""
    if gross_amount is None:
        return None
    if gross_amount % 1:
        return f"gross_amount is in euro cents, but {gross_amount:f} has a fraction of a cent."
    found = next((it for it in sums if gross_amount and abs(it) == abs(gross_amount)), None)
    if found is None:
        return None
    return (
        f"gross_amount is in euro cents, but {gross_amount:f} is what the transactions of the invoice make "
        f"in euros: in cents they make {abs(found) * 100:.0f}."
    )


def _sum_by_invoice(transactions: Sequence[tuple[Path, Item]]) -> dict[str | None, Decimal]:
    sums: dict[str | None, Decimal] = {}
    for _, transaction in transactions:
        number = transaction.get("associated_invoice_number")
        if number is not None and "amount" in transaction:
            sums[number] = sums.get(number, ZERO) + signed_amount(transaction)
    return sums


@rule(Severity.WARNING, remedy="Correct associated_invoice_number, or send the statement it names.")
def statement_not_found_for_invoice_number(account: CheckedAccount) -> Iterator[Fault]:
    """Statements are given, but none has the number that a transaction names as its invoice."""
    if not account.statements:
        return
    numbers = {statement.get("number") for _, statement in account.statements}
    if None in numbers:  # the transaction may refer to the statement with the faulty number
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
    return find_future(account, account.statements, "bill_period_to_date", "The bill period ends on")


@rule(Severity.WARNING, remedy="Correct the date: a historical statement has already been issued.")
def statement_issued_in_future(account: CheckedAccount) -> Iterator[Fault]:
    """A statement is issued after today."""
    return find_future(account, account.statements, "issued_date", "The statement is issued on")


@rule(Severity.WARNING, remedy="Send statement_path, or a statement_pdf_context to make the document from.")
def missing_statement_document(account: CheckedAccount) -> Iterator[Fault]:
    """A statement has neither a document nor the context to make one from."""
    for path, statement in account.statements:
        if statement.get("statement_path") or statement.get("statement_pdf_context"):
            continue
        if not account.is_faulty(*path, "statement_pdf_context"):
            yield (
                (*path, "statement_path"),
                "The statement has no document: send statement_path, or a statement_pdf_context.",
            )
