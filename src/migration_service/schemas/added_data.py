"""Data that is added to an existing account: the bodies and responses of sections 4.8 to 4.11."""

from typing import Any

from marshmallow import ValidationError, post_load, validates_schema

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.ledger import TransactionSchema
from migration_payloads.schemas.statement import STATEMENT, HistoricalStatementSchema
from migration_service.schemas import answers
from migration_service.schemas.requests import ErrorBodySchema, ErrorObjectSchema
from migration_service.states import Report

#: Characters of a note's body.
MAX_NOTE_BODY = 50_000
#: Characters of a reference that is sent to a payment vendor.
MAX_REFERENCE = 255


class AddedDataSchema(CommandFields):
    """The fields of every body: the account that data is added to."""

    import_supplier = fields.NormalIdentifier(
        "Code of the account's import supplier.", "DEMO_SUPPLIER", required=True, personal=False
    )
    external_account_number = fields.NormalIdentifier(
        "The account's number in the supplier's system.",
        "100000038",
        required=True,
        identifying=True,
        erased=False,
    )
    dry_run = fields.Flag("Do everything, roll it back, and return 200 with the body of a 201.", False)


class AddedDataArgumentsSchema(Fields):
    """The query string of the endpoints for added data."""

    report = fields.Choice(
        Report, "`full`: respond with all warnings, and with the usual body as `result`.", "full"
    )


class _ReportSchema(AnswerSchema):
    """The members of every full report on added data."""

    valid = answers.Boolean("Always true, because a body with errors gets a 400.", True)
    errors = answers.List(ErrorObjectSchema, "Always empty.", [])
    warnings = answers.List(
        ErrorObjectSchema,
        "The warnings about the added data, each with its path.",
        [{"detail": "'colour' is not a field here.", "code": "unknown_field", "attr": "notes.0.colour"}],
    )


class NoteDocumentSchema(Fields):
    """A file that a note refers to."""

    document_path = fields.DocumentPath(
        "Path of the file below the supplier's document root.",
        "notes/2026/letter.pdf",
        required=True,
        identifying=True,
    )


class NoteSchema(Fields):
    """A note (section 2.6). An empty body counts as absent, and so does an empty list of documents."""

    body = fields.Text(
        "The text of the note.",
        "Prefers to be called after six.",
        blank=True,
        max_length=MAX_NOTE_BODY,
        personal=True,
    )
    document_paths = fields.Objects(
        NoteDocumentSchema, "The files of the note.", [{"document_path": "notes/2026/letter.pdf"}]
    )
    created_at = fields.UtcMoment(
        "When the note was written. The default is the time of the request.", "2026-01-15T09:30:00Z"
    )
    is_pinned = fields.Flag("Pins the note to the top of the account support page.", True)
    unpin_at = fields.UtcMoment("When the note is unpinned.", "2026-06-01T00:00:00Z")

    @validates_schema
    def _has_content(self, data: dict[str, Any], **_kwargs: Any) -> None:
        if not data.get("body") and not data.get("document_paths"):
            text = "A note needs a body or document_paths."
            raise ValidationError(fields.Message(text, "note_body_or_document_path_not_found"))

    @post_load
    def _drop_empty(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        for name in ("body", "document_paths"):
            if not data.get(name, True):
                del data[name]
        return data


class NotesRequestSchema(AddedDataSchema):
    """The body of the notes endpoint (section 4.8)."""

    notes = fields.Objects(
        NoteSchema,
        "The notes to add.",
        [{"body": "Prefers to be called after six."}],
        required=True,
        empty=False,
    )


class NoteResultSchema(AnswerSchema):
    """The result for one posted note."""

    optional = frozenset({"warnings"})

    created_at = answers.Moment("When the note on the account was written, in UTC.", "2026-01-15T09:30:00Z")
    body = answers.String("The text of the note.", "Prefers to be called after six.", allow_none=True)
    status = answers.String(
        "Whether the note was added, or already existed.",
        "NOTE_CREATION_SUCCESS",
        words=["NOTE_CREATION_SUCCESS", "NOTE_ALREADY_EXISTS"],
    )
    warnings = answers.List(
        ErrorObjectSchema, "What the existing note lacks and was not added to it. Absent if empty.", []
    )


_TRANSACTION = {
    "transaction_id": "P-1",
    "transaction_date": "2026-03-10",
    "amount": 25,
    "type": "PAYMENT",
    "reason": "ACCOUNT_CHARGE_PAYMENT",
    "payment_type": "DIRECT_CREDIT",
}


class TransactionsRequestSchema(AddedDataSchema):
    """The body of the transactions endpoint (section 4.9)."""

    transactions = fields.Objects(
        TransactionSchema,
        "The transactions to add: all of them, or none.",
        [_TRANSACTION],
        required=True,
        empty=False,
    )


class TransactionArgumentsSchema(AddedDataArgumentsSchema):
    """The query string of the transactions endpoint (section 4.9)."""

    check_previously_added = fields.Flag(
        "Skip a transaction that was already added.", True, load_default=True
    )
    force_add_to_current_statement = fields.Flag(
        "If a transaction is outside the open statement period, change its date instead of failing.",
        True,
        load_default=True,
    )


class AddedTransactionSchema(TransactionSchema):
    """A transaction as it is on the account."""

    status = answers.String(
        "Only present if an earlier request already added the transaction.",
        "TRANSACTION_IMPORT_SUCCESS",
        words=["TRANSACTION_IMPORT_SUCCESS"],
    )


class TransactionResultSchema(AnswerSchema):
    """The result for one posted transaction."""

    status = answers.String(
        "Whether the transaction was added, or already existed.",
        "TRANSACTION_ADDED_TO_ACCOUNT",
        words=["TRANSACTION_ADDED_TO_ACCOUNT", "TRANSACTION_ALREADY_EXISTS"],
    )
    transaction_data = answers.Nested(
        AddedTransactionSchema, "The transaction as it is on the account.", _TRANSACTION
    )


class TransactionResultsSchema(AnswerSchema):
    """The response of the transactions endpoint."""

    results = answers.List(
        TransactionResultSchema, "One result for each transaction, in the order of the request."
    )


class TransactionErrorBodySchema(ErrorBodySchema):
    """The body of a 400 of the transactions endpoint (sections 4.9 and 7.2)."""

    status = answers.String(
        "States that no transaction was added.",
        "TRANSACTION_IMPORT_ERROR",
        words=["TRANSACTION_IMPORT_ERROR"],
    )
    error_detail = answers.String(
        "The first reason.", "The transaction is not within the open statement period."
    )
    transaction_data = answers.Raw(
        "The first faulty transaction as it was sent. Null if none is at fault.",
        _TRANSACTION,
        allow_none=True,
    )


class StatementsRequestSchema(AddedDataSchema):
    """The body of the historical statements endpoint, and its response (section 4.10)."""

    statements = fields.Objects(
        HistoricalStatementSchema, "The statements to add.", [STATEMENT], required=True, empty=False
    )


class PaymentInstructionRequestSchema(AddedDataSchema):
    """The body of the payment instruction endpoint (section 4.11)."""

    vendor = fields.NormalIdentifier(
        "Name of the payment vendor that the operator set up.", "stripe", required=True, identifying=True
    )
    reference = fields.NormalIdentifier(
        "The vendor's reference for the means of payment.",
        "pm_1N0000000000",
        required=True,
        max_length=MAX_REFERENCE,
        personal=True,
    )
    type = fields.Code("The kind of payment instruction.", "CARD", required=True)


class PaymentInstructionResultSchema(AnswerSchema):
    """The response of the payment instruction endpoint."""

    service_account_number = answers.String("The account's number here.", "A-7KX2M9QD")
    reference = answers.String("The reference that was sent.", "pm_1N0000000000")


_RESULT = "The body without the report."


class NotesReportSchema(_ReportSchema):
    """The full report of the notes endpoint."""

    result = answers.List(NoteResultSchema, _RESULT, [])


class TransactionsReportSchema(_ReportSchema):
    """The full report of the transactions endpoint."""

    result = answers.Nested(TransactionResultsSchema, _RESULT, {"results": []})


class StatementsReportSchema(_ReportSchema):
    """The full report of the historical statements endpoint."""

    result = answers.Nested(
        StatementsRequestSchema,
        _RESULT,
        {
            "import_supplier": "SAMPLE_ENERGY",
            "external_account_number": "10000001",
            "statements": [
                {
                    "bill_period_from_date": "2020-01-01",
                    "bill_period_to_date": "2020-01-31",
                    "statement_id": "s-1",
                    "issued_date": "2020-02-01",
                    "number": "2020-1",
                    "gross_amount": 12345,
                }
            ],
        },
    )


class PaymentInstructionReportSchema(_ReportSchema):
    """The full report of the payment instruction endpoint."""

    result = answers.Nested(PaymentInstructionResultSchema, _RESULT)
