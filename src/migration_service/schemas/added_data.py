"""What is added to an account that exists: the bodies and answers of sections 4.8 to 4.11."""

from typing import Any

from marshmallow import ValidationError, fields, post_load, validates_schema

from migration_service.schemas.base import Answer, Fields
from migration_service.schemas.fields import (
    Code,
    DocumentPath,
    Flag,
    Identifier,
    Message,
    Objects,
    Text,
    UtcMoment,
)
from migration_service.schemas.ledger import TransactionSchema
from migration_service.schemas.requests import ErrorBodySchema
from migration_service.schemas.statement import HistoricalStatementSchema

#: Characters of a note's body.
MAX_NOTE_BODY = 50_000
#: Characters of a reference that is sent to a payment vendor.
MAX_REFERENCE = 255


class AddedDataSchema(Fields):
    """What every body here has: the account that something is added to."""

    import_supplier = Identifier(required=True)
    external_account_number = Identifier(required=True)


class NoteDocumentSchema(Fields):
    """A file that a note refers to."""

    document_path = DocumentPath(required=True)


class NoteSchema(Fields):
    """A note (section 2.6). An empty body, and an empty list of documents, count as absent."""

    body = Text(blank=True, max_length=MAX_NOTE_BODY)
    document_paths = Objects(NoteDocumentSchema)
    created_at = UtcMoment(metadata={"description": "By default the moment of the request."})
    is_pinned = Flag(metadata={"description": "Pins the note to the top of the account support page."})
    unpin_at = UtcMoment(metadata={"description": "The note is pinned until then."})

    @validates_schema
    def _has_content(self, data: dict[str, Any], **_kwargs: Any) -> None:
        if not data.get("body") and not data.get("document_paths"):
            text = "A note needs a body or document_paths."
            raise ValidationError(Message(text, "note_body_or_document_path_not_found"))

    @post_load
    def _drop_empty(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        for name in ("body", "document_paths"):
            if not data.get(name, True):
                del data[name]
        return data


class NotesRequestSchema(AddedDataSchema):
    """The body of the notes endpoint (section 4.8)."""

    notes = Objects(NoteSchema, required=True, empty=False)


class NoteResultSchema(Answer):
    """What became of one posted note."""

    created_at = fields.DateTime(metadata={"description": "Of the note on the account, in UTC."})
    body = fields.String(allow_none=True)
    status = fields.String(metadata={"enum": ["NOTE_CREATION_SUCCESS", "NOTE_ALREADY_EXISTS"]})


class TransactionsRequestSchema(AddedDataSchema):
    """The body of the transactions endpoint (section 4.9)."""

    transactions = Objects(TransactionSchema, required=True, empty=False)


_BOOLEAN = {"type": "boolean", "default": True}


class TransactionArgumentsSchema(Fields):
    """The query string of the transactions endpoint (section 4.9)."""

    check_previously_added = Flag(
        load_default=True,
        metadata={"description": "Skip a transaction that was added already.", "schema": _BOOLEAN},
    )
    force_add_to_current_statement = Flag(
        load_default=True,
        metadata={
            "description": "Change the date of a transaction outside the open statement period into it, "
            "instead of failing.",
            "schema": _BOOLEAN,
        },
    )


class AddedTransactionSchema(TransactionSchema):
    """A transaction as it is on the account."""

    status = fields.String(
        metadata={
            "enum": ["TRANSACTION_IMPORT_SUCCESS"],
            "description": "Only if the transaction was added already, by an earlier request.",
        }
    )


class TransactionResultSchema(Answer):
    """What became of one posted transaction."""

    status = fields.String(metadata={"enum": ["TRANSACTION_ADDED_TO_ACCOUNT", "TRANSACTION_ALREADY_EXISTS"]})
    transaction_data = fields.Nested(AddedTransactionSchema)


class TransactionResultsSchema(Answer):
    """The answer of the transactions endpoint."""

    results = fields.List(fields.Nested(TransactionResultSchema))


class TransactionErrorBodySchema(ErrorBodySchema):
    """The body of a 400 of the transactions endpoint (sections 4.9 and 7.2)."""

    status = fields.String(metadata={"enum": ["TRANSACTION_IMPORT_ERROR"]})
    error_detail = fields.String(metadata={"description": "The first reason."})
    transaction_data = fields.Raw(
        allow_none=True,
        metadata={"description": "The first failing transaction as sent; null where none is at fault."},
    )


class StatementsRequestSchema(AddedDataSchema):
    """The body of the historical statements endpoint, and its answer (section 4.10)."""

    statements = Objects(HistoricalStatementSchema, required=True, empty=False)


class PaymentInstructionRequestSchema(AddedDataSchema):
    """The body of the payment instruction endpoint (section 4.11)."""

    vendor = Identifier(required=True)
    reference = Identifier(required=True, max_length=MAX_REFERENCE)
    type = Code(required=True, metadata={"example": "CARD"})


class PaymentInstructionResultSchema(Answer):
    """The answer of the payment instruction endpoint."""

    service_account_number = fields.String(metadata={"example": "A-7KX2M9QD"})
    reference = fields.String()
