"""The bodies, query strings and responses of the endpoints (section 4)."""

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, CommandFields, Fields
from migration_service.schemas.fields import (
    AnsweredMoment,
    Choice,
    Flag,
    Identifier,
    NormalIdentifier,
    WholeNumber,
    about,
)
from migration_service.states import Profile, StagingResult


class ProcessRequestSchema(CommandFields):
    """The body of the process endpoint (section 4.3)."""

    external_account_number = NormalIdentifier(
        required=True, metadata=about("The number of a staged account.", "100000038")
    )
    import_supplier_code = NormalIdentifier(
        required=True, metadata=about("Code of the account's import supplier.", "DEMO_SUPPLIER")
    )
    operations_team_name = Identifier(
        required=True,
        metadata=about("The operations team of the account. It must exist.", "Migration Team"),
    )
    dry_run = Flag(
        load_default=False,
        metadata=about("Do everything, then roll it back. The status is 400 even if it succeeds.", False),
    )


class ValidateArgumentsSchema(Fields):
    """The query string of the validate endpoint."""

    profile = Choice(
        Profile,
        metadata=about(
            "The profile to validate under, instead of the supplier's.",
            "strict",
            schema={"type": "string", "enum": ["lenient", "strict"]},
        ),
    )


class ListArgumentsSchema(Fields):
    """The query string of a list."""

    limit = WholeNumber(
        metadata=about(
            "At most this many entries, 1 to 100,000. The Link header leads to the next page.",
            1_000,
            schema={"type": "integer", "minimum": 1, "maximum": 100_000},
        )
    )
    cursor = Identifier(
        max_length=1_000, metadata=about("Where the page starts, taken from the Link header.", "MTAwMDAwMDM4")
    )


class StagedAccountSchema(AnswerSchema):
    """The response of the stage endpoint (section 4.2)."""

    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    external_account_number = fields.String(metadata=about("The number of the staged account.", "100000038"))
    result = fields.String(
        metadata=about(
            "STAGED for the first payload of the account, REPLACED if it replaced another payload, "
            "UNCHANGED if the same payload was already staged.",
            "STAGED",
            enum=[result.value for result in StagingResult],
        )
    )


class CreatedAccountSchema(AnswerSchema):
    """The response of the process endpoint (section 4.3)."""

    service_account_number = fields.String(metadata=about("The created account's number.", "A-7KX2M9QD"))


class AcceptedAccountSchema(AnswerSchema):
    """The response of the process endpoint if it does not wait for the account."""

    status = fields.String(
        metadata=about("The account is being created.", "IN_PROGRESS", enum=["IN_PROGRESS"])
    )
    external_account_number = fields.String(metadata=about("The number of the account.", "100000038"))
    attempt_id = fields.UUID(
        metadata=about("The attempt that `Location` points to.", "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11")
    )


class AccountStatusSchema(AnswerSchema):
    """The response of the status endpoint (section 4.4)."""

    status = fields.String(
        metadata=about(
            "COMPLETED if the account exists, IN_PROGRESS if it is being created, otherwise UNKNOWN.",
            "COMPLETED",
            enum=["UNKNOWN", "IN_PROGRESS", "COMPLETED"],
        )
    )
    service_account_number = fields.String(
        metadata=about("The account's number. Empty until it exists.", "A-7KX2M9QD")
    )


class ListedImportSchema(AnswerSchema):
    """An entry of a list (section 4.5)."""

    external_account_number = fields.String(
        metadata=about("The account's number in the supplier's system.", "100000038")
    )
    service_account_number = fields.String(
        allow_none=True, metadata=about("The account's number. Null until it exists.", "A-7KX2M9QD")
    )
    account_created_at = AnsweredMoment(
        allow_none=True,
        metadata=about("When the account was created, in UTC. Null until it exists.", "2026-03-01T12:00:00Z"),
    )


class ErrorObjectSchema(AnswerSchema):
    """An error in a list (section 7.2)."""

    detail = fields.String(
        metadata=about("What is wrong, for people. It may change.", "This field is required.")
    )
    code = fields.String(metadata=about("What is wrong, for programs. It is stable.", "required"))
    attr = fields.String(
        allow_none=True,
        metadata=about("The path to the value at fault, or null.", "customers.1.landline"),
    )


class LineErrorObjectSchema(ErrorObjectSchema):
    """An error or warning of a line of a batch."""

    value = fields.String(
        allow_none=True,
        metadata=about(
            "The value at fault, cut after 200 characters. Null if the line has no value there.",
            "onbekend",
        ),
    )


class ErrorBodySchema(AnswerSchema):
    """The body of every error (section 7.2)."""

    detail = fields.String(
        metadata=about("What is wrong, for people. It may change.", "The account payload has errors.")
    )
    code = fields.String(
        metadata=about("What is wrong, for programs. It is stable.", "account_failed_validation")
    )
    errors = fields.List(
        fields.Nested(ErrorObjectSchema),
        metadata=about(
            "Every error, each with its path.",
            [{"detail": "This field is required.", "code": "required", "attr": "ledgers.0.ledger_code"}],
        ),
    )


class AccountErrorBodySchema(ErrorBodySchema):
    """The body of a 400, including the one for an account that was already imported (section 4.3)."""

    optional = frozenset({"external_account_number", "service_account_number"})

    external_account_number = fields.String(
        metadata=about("Only with the code account_already_imported.", "100000038")
    )
    service_account_number = fields.String(
        metadata=about("Only with the code account_already_imported.", "A-7KX2M9QD")
    )
