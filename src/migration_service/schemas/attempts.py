"""Responses of the endpoints for attempts, failed imports and import suppliers."""

from migration_payloads.profile import Profile
from migration_payloads.schemas.base import AnswerSchema
from migration_service.schemas import answers
from migration_service.schemas.requests import ErrorBodySchema
from migration_service.states import AttemptState, EmailMoment, ImportState, Outcome, SupplierStatus

_ATTEMPT_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_DETAIL = "Account would successfully import. Rolled back due to Dry Run."
_ERROR = {
    "detail": _DETAIL,
    "code": "dry_run_succeeded",
    "errors": [{"detail": _DETAIL, "code": "dry_run_succeeded", "attr": None}],
}


class AttemptAnswerSchema(AnswerSchema):
    """One attempt to create an account."""

    attempt_id = answers.UUID("The id of the attempt.", _ATTEMPT_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    external_account_number = answers.String("The account's number in the supplier's system.", "100000038")
    dry_run = answers.Boolean("Whether it is a dry run, which is rolled back even if it succeeds.", True)
    state = answers.String("Whether the attempt has ended.", "FINISHED", words=AttemptState)
    outcome = answers.String(
        "How it ended. WITHDRAWN: no worker started it in time. Null until it has ended.",
        "DRY_RUN_SUCCEEDED",
        allow_none=True,
        words=Outcome,
    )
    service_account_number = answers.String(
        "The number of the account. Null if the attempt did not create one.", "A-7KX2M9QD", allow_none=True
    )
    error = answers.Nested(
        ErrorBodySchema,
        "The error body that a request waiting for the attempt gets. Null if it has none.",
        _ERROR,
        allow_none=True,
    )
    created_at = answers.Moment("When it was accepted, in UTC.", "2026-03-01T10:15:00Z")
    finished_at = answers.Moment(
        "When it ended, in UTC. Null until then.", "2026-03-01T10:15:01Z", allow_none=True
    )


class FailedImportSchema(AnswerSchema):
    """An account that is not created and whose last attempt failed."""

    external_account_number = answers.String("The account's number in the supplier's system.", "100000038")
    attempt_id = answers.UUID("The account's last attempt.", _ATTEMPT_ID)
    dry_run = answers.Boolean("Whether it was a dry run.", False)
    outcome = answers.String(
        "FAILED, or WITHDRAWN if no worker started it in time.",
        "FAILED",
        words=[Outcome.FAILED.value, Outcome.WITHDRAWN.value],
    )
    code = answers.String("The code of the error.", "account_failed_validation")
    finished_at = answers.Moment("When it ended, in UTC.", "2026-03-01T10:15:01Z")


class ImportSupplierAnswerSchema(AnswerSchema):
    """An import supplier of the organisation, with the number of its accounts in each state."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    status = answers.String(
        "Whether it may stage and create accounts: only while it is Ongoing.", "Ongoing", words=SupplierStatus
    )
    profile = answers.String("The profile of its payloads.", "lenient", words=Profile)
    time_zone = answers.String(
        "Its time zone, which determines today's date for its data.", "Europe/Amsterdam"
    )
    customer_emails = answers.Boolean("Whether customers get an e-mail about their account.", True)
    emails_at = answers.String(
        "When they are sent. Until then they are held.", "at_go_live", words=EmailMoment
    )
    emails_from = answers.Moment("The moment of `at_moment`, in UTC.", None, allow_none=True)
    emails_held = answers.Integer("The number of held e-mails.", 1_192)
    counts = answers.Dict(
        "Accounts by state.",
        {"PENDING": 2_900, "IN_PROGRESS": 100, "IMPORTED": 97_000, "SKIPPED": 0},
        openapi={
            "type": "object",
            "properties": {state.value: {"type": "integer"} for state in ImportState},
            "required": [state.value for state in ImportState],
            "additionalProperties": {"type": "integer"},
        },
    )
