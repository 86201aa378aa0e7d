"""Query strings and responses of the endpoints for attempts, failed imports and import suppliers."""

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, Fields
from migration_service.schemas.fields import AnsweredMoment, Identifier, WholeNumber, about
from migration_service.schemas.requests import ErrorBodySchema
from migration_service.states import AttemptState, ImportState, Outcome, Profile, SupplierStatus

_ATTEMPT_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_DETAIL = "Account would successfully import. Rolled back due to Dry Run."
_ERROR = {
    "detail": _DETAIL,
    "code": "dry_run_succeeded",
    "errors": [{"detail": _DETAIL, "code": "dry_run_succeeded", "attr": None}],
}


class AttemptListArgumentsSchema(Fields):
    """The query string of the list of attempts."""

    limit = WholeNumber(
        load_default=50,
        metadata=about(
            "At most this many attempts, 1 to 500. The Link header leads to the next page.",
            50,
            schema={"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        ),
    )
    cursor = Identifier(metadata=about("Where the page starts, taken from the Link header.", _ATTEMPT_ID))


class AttemptAnswerSchema(AnswerSchema):
    """One attempt to create an account."""

    attempt_id = fields.UUID(metadata=about("The id of the attempt.", _ATTEMPT_ID))
    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    external_account_number = fields.String(
        metadata=about("The account's number in the supplier's system.", "100000038")
    )
    dry_run = fields.Boolean(
        metadata=about("Whether it is a dry run, which is rolled back even if it succeeds.", True)
    )
    state = fields.String(
        metadata=about(
            "Whether the attempt has ended.", "FINISHED", enum=[state.value for state in AttemptState]
        )
    )
    outcome = fields.String(
        allow_none=True,
        metadata=about(
            "How it ended. WITHDRAWN: no worker started it in time. Null until it has ended.",
            "DRY_RUN_SUCCEEDED",
            enum=[*(outcome.value for outcome in Outcome), None],
        ),
    )
    service_account_number = fields.String(
        allow_none=True,
        metadata=about("The number of the account. Null if the attempt did not create one.", "A-7KX2M9QD"),
    )
    error = fields.Nested(
        ErrorBodySchema,
        allow_none=True,
        metadata=about(
            "The error body that a request waiting for the attempt gets. Null if it has none.",
            _ERROR,
        ),
    )
    created_at = AnsweredMoment(metadata=about("When it was accepted, in UTC.", "2026-03-01T10:15:00Z"))
    finished_at = AnsweredMoment(
        allow_none=True,
        metadata=about("When it ended, in UTC. Null until then.", "2026-03-01T10:15:01Z"),
    )


class FailedImportSchema(AnswerSchema):
    """An account that is not created and whose last attempt failed."""

    external_account_number = fields.String(
        metadata=about("The account's number in the supplier's system.", "100000038")
    )
    attempt_id = fields.UUID(metadata=about("The account's last attempt.", _ATTEMPT_ID))
    dry_run = fields.Boolean(metadata=about("Whether it was a dry run.", False))
    outcome = fields.String(
        metadata=about(
            "FAILED, or WITHDRAWN if no worker started it in time.",
            "FAILED",
            enum=[Outcome.FAILED.value, Outcome.WITHDRAWN.value],
        )
    )
    code = fields.String(metadata=about("The code of the error.", "account_failed_validation"))
    finished_at = AnsweredMoment(metadata=about("When it ended, in UTC.", "2026-03-01T10:15:01Z"))


class ImportSupplierAnswerSchema(AnswerSchema):
    """An import supplier of the organisation, with the number of its accounts in each state."""

    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    status = fields.String(
        metadata=about(
            "Whether it may stage and create accounts: only while it is Ongoing.",
            "Ongoing",
            enum=[status.value for status in SupplierStatus],
        )
    )
    profile = fields.String(
        metadata=about("The profile of its payloads.", "lenient", enum=[profile.value for profile in Profile])
    )
    time_zone = fields.String(
        metadata=about("Its time zone, which determines today's date for its data.", "Europe/Amsterdam")
    )
    counts = fields.Dict(
        metadata=about(
            "Accounts by state.",
            {"PENDING": 2_900, "IN_PROGRESS": 100, "IMPORTED": 97_000, "SKIPPED": 0},
            type="object",
            properties={state.value: {"type": "integer"} for state in ImportState},
            required=[state.value for state in ImportState],
            additionalProperties={"type": "integer"},
        )
    )
