"""Statements: in the account payload (2.3), and added to an account later (2.7)."""

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.fields import Day, DocumentPath, FreeObject, NormalIdentifier, Number

#: An example of a statement.
STATEMENT = {
    "bill_period_from_date": "2026-02-01",
    "bill_period_to_date": "2026-02-28",
    "statement_id": "S-100000038-1",
    "issued_date": "2026-03-01",
    "number": "2026-100000038-1-01",
    "gross_amount": 4928,
}


class HistoricalStatementSchema(Fields):
    """A bill from before the migration (section 2.7)."""

    bill_period_from_date = Day(
        "First day of the billed period.", "2026-02-01", required=True, personal=False
    )
    bill_period_to_date = Day(
        "Last day of the billed period, inclusive.", "2026-02-28", required=True, personal=False
    )
    statement_id = NormalIdentifier(
        "The supplier's identifier of the statement.",
        "S-100000038-1",
        required=True,
        identifying=True,
        erased=False,
    )
    issued_date = Day("The day on which the statement was sent.", "2026-03-01", required=True, personal=False)
    number = NormalIdentifier(
        "The invoice number. Transactions name it as associated_invoice_number.",
        "2026-100000038-1-01",
        required=True,
        identifying=True,
        erased=False,
    )
    gross_amount = Number(
        "The billed amount, including tax.",
        4928,
        required=True,
        unit="in euro cents; positive if the customer owes it",
    )
    statement_path = DocumentPath(
        "Path of the PDF below the supplier's document root.",
        "statements/2026/S-100000038-1.pdf",
        identifying=True,
    )


class StatementSchema(HistoricalStatementSchema):
    """A statement in the account payload (section 2.3)."""

    statement_pdf_context = FreeObject(
        "The data to make a PDF from. An empty object counts as absent.", {}, personal=True
    )
