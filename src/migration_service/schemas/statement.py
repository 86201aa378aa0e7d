"""Statements: embedded in the account payload (2.3), and added to an account later (2.7)."""

from migration_service.schemas.base import Fields
from migration_service.schemas.fields import Day, DocumentPath, FreeObject, Identifier, Number


class HistoricalStatementSchema(Fields):
    """A bill of the time before the migration (section 2.7)."""

    bill_period_from_date = Day(required=True)
    bill_period_to_date = Day(required=True)
    statement_id = Identifier(required=True)
    issued_date = Day(required=True)
    number = Identifier(required=True, metadata={"description": "The invoice number."})
    gross_amount = Number(required=True, metadata={"description": "In cents."})
    statement_path = DocumentPath()


class StatementSchema(HistoricalStatementSchema):
    """A statement in the account payload (section 2.3)."""

    statement_pdf_context = FreeObject(metadata={"description": "An empty object counts as absent."})
