"""The response with everything that the service holds about one account."""

from typing import Any

from marshmallow import fields

from migration_service.schemas.account import AccountImportSchema
from migration_service.schemas.base import AnswerSchema
from migration_service.schemas.fields import AnsweredMoment, about
from migration_service.schemas.requests import AccountStatusSchema, ErrorObjectSchema, StagedAccountSchema

_MOMENT = "2026-03-01T22:00:00Z"
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_ERROR = {
    "detail": "This is not a valid telephone number of its country.",
    "code": "invalid_phone_number",
    "attr": "customers.0.mobile",
}
_NOTE = {"body": "Prefers to be called after six.", "added_at": _MOMENT}


def _items(description: str, *example: Any) -> fields.List[Any]:
    """Return a list of the items sent to an endpoint for added data, each with `added_at`."""
    item: dict[str, Any] = {
        "type": "object",
        "properties": {
            "added_at": {
                "type": ["string", "null"],
                "format": "date-time",
                "description": "When it was added, in UTC. Null if that was not recorded at the time.",
            }
        },
        "additionalProperties": True,
    }
    return fields.List(fields.Dict(metadata=item), metadata=about(description, [*example]))


class StagedVersionSchema(AnswerSchema):
    """The staged payload, or the one that the account was created from."""

    staged_at = AnsweredMoment(metadata=about("When it was staged, in UTC.", _MOMENT))
    extracted_at = AnsweredMoment(
        allow_none=True, metadata=about("When the supplier extracted it, in UTC, if this was sent.", _MOMENT)
    )
    profile = fields.String(metadata=about("The profile under which it was valid.", "lenient"))
    warnings = fields.List(
        fields.Nested(ErrorObjectSchema), metadata=about("The warnings of staging, each with its path.", [])
    )
    payload = fields.Nested(
        AccountImportSchema,
        allow_none=True,
        metadata=about("The data. Null once it is no longer kept.", None),
    )


class NewerVersionSchema(AnswerSchema):
    """A newer version that was refused."""

    refused_at = AnsweredMoment(metadata=about("When, in UTC.", _MOMENT))
    batch_id = fields.UUID(
        allow_none=True, metadata=about("The batch that it was in. Null for a single request.", _BATCH_ID)
    )
    line_number = fields.Integer(allow_none=True, metadata=about("Its line in that batch.", 17))
    errors = fields.List(
        fields.Nested(ErrorObjectSchema),
        metadata=about("Why it was refused, for as long as this is kept.", [_ERROR]),
    )


class CreatedVersionSchema(AnswerSchema):
    """The account that was created."""

    service_account_number = fields.String(metadata=about("Its number.", "A-7KX2M9QD"))
    account_created_at = AnsweredMoment(metadata=about("When it was created, in UTC.", _MOMENT))
    erased_at = AnsweredMoment(
        allow_none=True, metadata=about("When its personal data was erased, in UTC.", None)
    )


class AddedSinceSchema(AnswerSchema):
    """Data added to the account since then, in the order in which it was added."""

    notes = _items("Notes.", _NOTE)
    transactions = _items("Transactions, each with its ledger_code.")
    statements = _items("Historical statements.")
    payment_instructions = _items("Payment instructions.")


class AccountHistorySchema(AnswerSchema):
    """An account's staged payload, what was created, and what was added since."""

    import_supplier = StagedAccountSchema().fields["import_supplier"]
    external_account_number = fields.String(metadata=about("The account's number.", "100000038"))
    status = AccountStatusSchema().fields["status"]
    is_skipped = fields.Boolean(metadata=about("Whether an operator excluded it.", False))
    staged = fields.Nested(
        StagedVersionSchema,
        allow_none=True,
        metadata=about(
            "The payload that is staged, or was staged when the account was created. Null "
            "once it has been erased.",
            None,
        ),
    )
    newer_version = fields.Nested(
        NewerVersionSchema,
        allow_none=True,
        metadata=about("A newer version that was refused, or null.", None),
    )
    created = fields.Nested(
        CreatedVersionSchema, allow_none=True, metadata=about("The account. Null until it exists.", None)
    )
    added = fields.Nested(
        AddedSinceSchema,
        allow_none=True,
        metadata=about(
            "Data added since then. Null until the account exists, and once it has been erased.", None
        ),
    )
