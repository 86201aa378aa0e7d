"""The response with everything that the service holds about one account."""

from typing import Any

from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.base import AnswerSchema
from migration_service.schemas import answers
from migration_service.schemas.requests import AccountStatusSchema, ErrorObjectSchema, StagedAccountSchema
from migration_service.states import Owner

_MOMENT = "2026-03-01T22:00:00Z"
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_ERROR = {
    "detail": "This is not a valid telephone number of its country.",
    "code": "invalid_phone_number",
    "attr": "customers.0.mobile",
}
_NOTE = {"body": "Prefers to be called after six.", "added_at": _MOMENT}


def _items(meaning: str, *example: Any) -> answers.List:
    """Return a list of the items sent to an endpoint for added data, each with `added_at`."""
    added_at = {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "When it was added, in UTC. Null if that was not recorded at the time.",
    }
    item = {"type": "object", "properties": {"added_at": added_at}, "additionalProperties": True}
    return answers.List(answers.Dict(openapi=item), meaning, [*example])


class StagedVersionSchema(AnswerSchema):
    """The staged payload, or the one that the account was created from."""

    staged_at = answers.Moment("When it was staged, in UTC.", _MOMENT)
    extracted_at = answers.Moment(
        "When the supplier extracted it, in UTC, if this was sent.", _MOMENT, allow_none=True
    )
    profile = answers.String("The profile under which it was valid.", "lenient")
    warnings = answers.List(ErrorObjectSchema, "The warnings of staging, each with its path.", [])
    payload = answers.Nested(
        AccountImportSchema, "The data. Null once it is no longer kept.", None, allow_none=True
    )


class NewerVersionSchema(AnswerSchema):
    """A newer version that was refused."""

    refused_at = answers.Moment("When, in UTC.", _MOMENT)
    batch_id = answers.UUID(
        "The batch that it was in. Null for a single request.", _BATCH_ID, allow_none=True
    )
    line_number = answers.Integer("Its line in that batch.", 17, allow_none=True)
    errors = answers.List(ErrorObjectSchema, "Why it was refused, for as long as this is kept.", [_ERROR])


class CreatedVersionSchema(AnswerSchema):
    """The account that was created."""

    service_account_number = answers.String("Its number.", "A-7KX2M9QD")
    operations_team_name = answers.String("The operations team that it is linked to.", "Migration team")
    account_created_at = answers.Moment("When it was created, in UTC.", _MOMENT)
    erased_at = answers.Moment("When its personal data was erased, in UTC.", None, allow_none=True)
    owner = answers.String("Who is responsible for it: `new` once it has gone live.", "old", words=Owner)
    live_at = answers.Moment("When it goes or went live, in UTC.", None, allow_none=True)
    live_by = answers.String("Who decided that.", None, allow_none=True)


class AddedSinceSchema(AnswerSchema):
    """Data added to the account since then, in the order in which it was added."""

    notes = _items("Notes.", _NOTE)
    transactions = _items("Transactions, each with its ledger_code.")
    statements = _items("Historical statements.")
    payment_instructions = _items("Payment instructions.")


class AccountHistorySchema(AnswerSchema):
    """An account's staged payload, what was created, and what was added since."""

    import_supplier = StagedAccountSchema().fields["import_supplier"]
    external_account_number = answers.String("The account's number.", "100000038")
    status = AccountStatusSchema().fields["status"]
    is_skipped = answers.Boolean("Whether an operator excluded it.", False)
    staged = answers.Nested(
        StagedVersionSchema,
        "The payload that is staged, or was staged when the account was created. Null "
        "once it has been erased.",
        None,
        allow_none=True,
    )
    newer_version = answers.Nested(
        NewerVersionSchema, "A newer version that was refused, or null.", None, allow_none=True
    )
    created = answers.Nested(
        CreatedVersionSchema, "The account. Null until it exists.", None, allow_none=True
    )
    added = answers.Nested(
        AddedSinceSchema,
        "Data added since then. Null until the account exists, and once it has been erased.",
        None,
        allow_none=True,
    )
