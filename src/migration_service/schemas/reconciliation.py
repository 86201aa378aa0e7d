"""The query string, bodies and responses of reconciliation."""

from typing import Any

from marshmallow import post_load, validates_schema
from marshmallow.exceptions import ValidationError

from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.fields import Identifier, Message, Values, WholeNumber
from migration_service.schemas import answers
from migration_service.schemas.book_totals import BookTotalsAnswerSchema
from migration_service.schemas.requests import ErrorObjectSchema
from migration_service.states import OpenReason

#: The most accounts or lines that one request may acknowledge.
MAX_ACKNOWLEDGED = 10_000


_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_NUMBER = "The account's number in the supplier's system."
_ERROR = {"detail": "This field is required.", "code": "required", "attr": "ledgers.0.ledger_code"}
#: A value of any kind, for OpenAPI.
_ANY = [
    *({"type": kind} for kind in ("string", "number", "boolean", "null")),
    {"type": "array", "items": {"type": "object", "additionalProperties": True}},
    {"type": "object", "additionalProperties": True},
]
_TOTAL = {"measure": "accounts", "staged": 99_999, "created": 99_999}
_NOT_COMPARED = ["the documents themselves: only their paths and locations are compared"]


class ReconciliationArgumentsSchema(Fields):
    """The query string of a reconciliation."""

    batch = Identifier(
        "Only the accounts on the lines of this batch.",
        _BATCH_ID,
        parameter={"type": "string", "format": "uuid"},
    )


class SentAnswerSchema(AnswerSchema):
    """Counts of what was sent, by outcome. Each account number counts once."""

    sent = answers.Integer("The sum of the five numbers that follow.", 100_000)
    refused = answers.Integer("Refused, with nothing staged.", 1)
    waiting = answers.Integer("On lines that are pending or were only validated.", 0)
    staged = answers.Integer("Staged and not created.", 0)
    created = answers.Integer("Created accounts.", 99_999)
    skipped = answers.Integer("Excluded by operators.", 0)
    acknowledged = answers.Integer(
        "Acknowledged accounts among those refused, waiting, or created from an older version.", 0
    )
    open = answers.Integer(
        "Accounts refused, waiting, staged, or created from an older version, minus those acknowledged.", 1
    )
    staged_older_version = answers.Integer("Staged accounts whose newer version was refused.", 0)
    created_older_version = answers.Integer("Created accounts whose newer version was refused.", 0)
    added_lines_refused = answers.Integer(
        "Refused lines of the supplier's batches of added data. They count as open only in the "
        "reconciliation of their batch. 0 if the reconciliation is of a batch.",
        2,
    )
    lines_removed = answers.Integer("Lines that are no longer kept, so it is unknown which were refused.", 0)


class OpenItemAnswerSchema(AnswerSchema):
    """An account, or a line without an account number, that was sent and is open."""

    external_account_number = answers.String(
        f"{_NUMBER} Null if the line does not have it.", "100000038", allow_none=True
    )
    reason = answers.String("Why it is open.", "REFUSED", words=OpenReason)
    batch_id = answers.UUID(
        "The batch of the newest line that had it. Null for a single request, and for a STAGED account.",
        _BATCH_ID,
        allow_none=True,
    )
    line_number = answers.Integer("The number of that line in its file, from 1.", 17, allow_none=True)
    errors = answers.List(
        ErrorObjectSchema,
        "The errors of that line or request, for as long as they are kept.",
        [_ERROR],
        allow_none=True,
    )


class DifferenceAnswerSchema(AnswerSchema):
    """The staged and the created value of a measure, for one account or for all accounts."""

    measure = answers.String("The measure.", "statements")
    staged = answers.Float("Its value in the staged payloads.", 2)
    created = answers.Sum("Its value in the created accounts.", 1)


class ValueDifferenceAnswerSchema(AnswerSchema):
    """A value of an account that differs from the staged one."""

    path = answers.String("Its path in the payload.", "statements.0.gross_amount")
    staged = answers.Raw(
        "The staged value, or the whole row. Null if the payload does not have it.",
        4928,
        openapi={"anyOf": _ANY},
    )
    created = answers.Raw(
        "The value of the account, or the whole row. Null if it does not have it.",
        5928,
        openapi={"anyOf": _ANY},
    )


class AccountDifferenceAnswerSchema(AnswerSchema):
    """A created account that differs from what was staged."""

    external_account_number = answers.String(_NUMBER, "100000046")
    service_account_number = answers.String("The created account's number.", "A-7KX2M9QD", allow_none=True)
    differences = answers.List(
        DifferenceAnswerSchema, "Each measure that differs. None if only values differ."
    )
    values = answers.List(ValueDifferenceAnswerSchema, "Each value that differs.")


class ReconciliationAnswerSchema(AnswerSchema):
    """What was sent, what is open, and how created accounts differ from what was staged."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    sent = answers.Nested(SentAnswerSchema, "What was sent, by outcome.")
    open = answers.List(
        OpenItemAnswerSchema,
        "Items that are neither created in their newest version nor skipped nor acknowledged.",
    )
    book = answers.Nested(
        BookTotalsAnswerSchema,
        "Accounts, balances, transactions and statements by outcome, with the supplier's control "
        "totals. Null for a batch of added data.",
        allow_none=True,
    )
    differences = answers.List(
        AccountDifferenceAnswerSchema, "The created accounts that differ from what was staged."
    )
    totals = answers.List(DifferenceAnswerSchema, "Each measure over all created accounts.", [_TOTAL])
    compared = answers.Integer("Created accounts whose values were all compared with the payload.", 99_998)
    not_comparable = answers.Integer(
        "Created accounts whose staged payload is no longer kept. They are not compared.", 1
    )
    not_compared = answers.List(answers.String, "A description of what is not compared.", _NOT_COMPARED)
    differing = answers.Integer("The number of created accounts that differ.", 1)
    created_clean = answers.Boolean("Whether something was compared, and no created account differs.", False)
    complete = answers.Boolean(
        "Whether no line of a batch of accounts and no staged account is open. Refused lines of added "
        "data are in sent.added_lines_refused.",
        False,
    )
    clean = answers.Boolean("Whether both created_clean and complete are true.", False)


class AcknowledgementBodySchema(CommandFields):
    """The body for acknowledging what was refused."""

    reason = Identifier(
        "Why they are not migrated. It is kept in the audit: no personal data.",
        "Moved to another supplier before the migration.",
        required=True,
        max_length=1_000,
    )
    external_account_numbers = Values(Identifier(), "The accounts to acknowledge.", ["100000038"])
    batch = Identifier("The batch with the lines without a number.", _BATCH_ID)
    line_numbers = Values(
        WholeNumber(), "Lines of that batch. By default all of its lines without a number.", [17]
    )

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require either account numbers or a batch, which may have line numbers."""
        if bool(data.get("external_account_numbers")) == ("batch" in data):
            message = "Expected either external_account_numbers or a batch."
            raise ValidationError(Message(message, "required"), "external_account_numbers")
        if "line_numbers" in data and "batch" not in data:
            raise ValidationError(Message("Give the batch of these lines.", "required"), "batch")
        for name in ("external_account_numbers", "line_numbers"):
            if len(data.get(name) or ()) > MAX_ACKNOWLEDGED:
                message = f"At most {MAX_ACKNOWLEDGED:,} in one request."
                raise ValidationError(Message(message, "max_length"), name)

    @post_load
    def make_tuples(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """Leave out an empty list of account numbers."""
        return {name: value for name, value in data.items() if value not in (None, [])}


class AcknowledgedAnswerSchema(AnswerSchema):
    """How many accounts or lines were acknowledged."""

    acknowledged = answers.Integer("Accounts or lines that were acknowledged.", 2)


class AcknowledgementAnswerSchema(AnswerSchema):
    """An acknowledgement."""

    external_account_number = answers.String(
        f"{_NUMBER} Null for a line without one.", "100000038", allow_none=True
    )
    batch_id = answers.UUID("The batch of a line without a number, or null.", _BATCH_ID, allow_none=True)
    line_number = answers.Integer("The number of that line in its file, or null.", 17, allow_none=True)
    reason = answers.String("Why it is not migrated.", "Moved to another supplier before the migration.")
    acknowledged_by = answers.String("The name of the API key that was used.", "Migration")
    acknowledged_at = answers.Moment("When, in UTC.", "2026-03-01T10:15:00Z")
