"""Query strings and answers of the endpoints for attempts, failed imports and import suppliers."""

from marshmallow import fields

from migration_service.schemas.base import Fields
from migration_service.schemas.fields import AnsweredMoment, Identifier, WholeNumber
from migration_service.schemas.requests import ErrorBodySchema
from migration_service.states import AttemptState, ImportState, Outcome, Profile, SupplierStatus


class AttemptListArgumentsSchema(Fields):
    """The query string of the list of attempts."""

    limit = WholeNumber(
        load_default=50,
        metadata={
            "description": "At most so many attempts, 1 to 500; the Link header leads to the next page.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        },
    )
    cursor = Identifier(metadata={"description": "Where the page starts: taken from the Link header."})


class AttemptAnswerSchema(Fields):
    """One attempt to create an account."""

    attempt_id = fields.UUID(required=True)
    import_supplier = fields.String(required=True)
    external_account_number = fields.String(required=True)
    dry_run = fields.Boolean(required=True)
    state = fields.String(required=True, metadata={"enum": [state.value for state in AttemptState]})
    outcome = fields.String(
        required=True,
        allow_none=True,
        metadata={"enum": [*(outcome.value for outcome in Outcome), None]},
    )
    service_account_number = fields.String(
        required=True, allow_none=True, metadata={"description": "Of the account, if the attempt created it."}
    )
    error = fields.Nested(
        ErrorBodySchema,
        required=True,
        allow_none=True,
        metadata={"description": "The body of the error that a request waiting for the attempt gets."},
    )
    created_at = AnsweredMoment(required=True)
    finished_at = AnsweredMoment(required=True, allow_none=True)


class FailedImportSchema(Fields):
    """An account that is not created and whose last attempt failed."""

    external_account_number = fields.String(required=True)
    attempt_id = fields.UUID(required=True)
    dry_run = fields.Boolean(required=True)
    outcome = fields.String(required=True, metadata={"enum": [Outcome.FAILED.value, Outcome.WITHDRAWN.value]})
    code = fields.String(required=True, metadata={"description": "The code of the error."})
    finished_at = AnsweredMoment(required=True)


class ImportSupplierAnswerSchema(Fields):
    """An import supplier of the organisation, and how many of its accounts are in each state."""

    import_supplier = fields.String(required=True)
    status = fields.String(required=True, metadata={"enum": [status.value for status in SupplierStatus]})
    profile = fields.String(required=True, metadata={"enum": [profile.value for profile in Profile]})
    counts = fields.Dict(
        required=True,
        metadata={
            "description": "Accounts by state.",
            "type": "object",
            "properties": {state.value: {"type": "integer"} for state in ImportState},
            "additionalProperties": {"type": "integer"},
        },
    )
