"""Query string, bodies and answers of reconciliation."""

from typing import Any

from marshmallow import fields, post_load, validates_schema
from marshmallow.exceptions import ValidationError

from migration_service.schemas.base import Fields
from migration_service.schemas.fields import Identifier, Message, Values, WholeNumber
from migration_service.schemas.requests import ErrorObjectSchema
from migration_service.states import OpenReason

#: Accounts, or lines, that one request acknowledges.
MAX_ACKNOWLEDGED = 10_000


class ReconciliationArguments(Fields):
    """The query string of a reconciliation."""

    batch = Identifier(metadata={"description": "Only the accounts that are on the lines of this batch."})


class SentAnswer(Fields):
    """What was sent, by what became of it; each account number once."""

    sent = fields.Integer(metadata={"description": "The sum of the next five numbers."})
    refused = fields.Integer(metadata={"description": "Refused, so that nothing is staged."})
    waiting = fields.Integer(metadata={"description": "On lines that are pending, or were only validated."})
    staged = fields.Integer(metadata={"description": "Staged and not created."})
    created = fields.Integer(metadata={"description": "Created accounts."})
    skipped = fields.Integer(metadata={"description": "Taken out by operators."})
    acknowledged = fields.Integer(
        metadata={"description": "How many of those refused or waiting were acknowledged with a reason."}
    )
    open = fields.Integer(metadata={"description": "Refused, waiting and staged, less those acknowledged."})
    lines_removed = fields.Integer(
        metadata={"description": "Lines that are no longer kept: what was refused of them is not known."}
    )


class OpenItemAnswer(Fields):
    """An account, or a line without an account number, that was sent and is open."""

    external_account_number = fields.String(allow_none=True)
    reason = fields.String(metadata={"enum": [reason.value for reason in OpenReason]})
    batch_id = fields.UUID(allow_none=True, metadata={"description": "Of the newest line that had it."})
    line_number = fields.Integer(allow_none=True)
    errors = fields.List(fields.Nested(ErrorObjectSchema), allow_none=True)


class DifferenceAnswer(Fields):
    """A measure of what was staged and of what was created, for one account or for all of them."""

    measure = fields.String()
    staged = fields.Float()
    created = fields.Float()


class AccountDifferenceAnswer(Fields):
    """A created account that is not as it was staged."""

    external_account_number = fields.String()
    service_account_number = fields.String(allow_none=True)
    differences = fields.List(fields.Nested(DifferenceAnswer))


class ReconciliationAnswer(Fields):
    """What was sent, what of it is open, and what differs between staged and created."""

    import_supplier = fields.String()
    sent = fields.Nested(SentAnswer)
    open = fields.List(fields.Nested(OpenItemAnswer))
    differences = fields.List(fields.Nested(AccountDifferenceAnswer))
    totals = fields.List(fields.Nested(DifferenceAnswer))
    not_comparable = fields.Integer(
        metadata={"description": "Created accounts whose staged payload is no longer kept."}
    )
    differing = fields.Integer(metadata={"description": "How many created accounts differ."})
    clean = fields.Boolean(metadata={"description": "No created account differs."})


class AcknowledgementBody(Fields):
    """The body that acknowledges what was refused."""

    reason = Identifier(required=True, max_length=1_000)
    external_account_numbers = Values(Identifier())
    batch = Identifier(metadata={"description": "The batch whose lines without a number are meant."})
    line_numbers = Values(WholeNumber())

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require either account numbers, or a batch with or without its lines."""
        if bool(data.get("external_account_numbers")) == ("batch" in data):
            message = "Expected either external_account_numbers or a batch."
            raise ValidationError(Message(message, "required"), "external_account_numbers")
        if "line_numbers" in data and "batch" not in data:
            raise ValidationError(Message("Name the batch of these lines.", "required"), "batch")
        for name in ("external_account_numbers", "line_numbers"):
            if len(data.get(name) or ()) > MAX_ACKNOWLEDGED:
                message = f"At most {MAX_ACKNOWLEDGED:,} in one request."
                raise ValidationError(Message(message, "max_length"), name)

    @post_load
    def make_tuples(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """Leave out an empty list of account numbers."""
        return {name: value for name, value in data.items() if value not in (None, [])}


class AcknowledgedAnswer(Fields):
    """How many accounts or lines were acknowledged."""

    acknowledged = fields.Integer()


class AcknowledgementAnswer(Fields):
    """Something that was acknowledged."""

    external_account_number = fields.String(allow_none=True)
    batch_id = fields.UUID(allow_none=True)
    line_number = fields.Integer(allow_none=True)
    reason = fields.String()
    acknowledged_by = fields.String()
    acknowledged_at = fields.DateTime()
