"""The bodies, query strings and responses of the endpoints (section 4)."""

from migration_payloads.errors import Confidence, Operation
from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_service.schemas import answers
from migration_service.schemas.paging import Cursor, PageSize, read_number_cursor
from migration_service.states import Owner, StagingResult


class ProcessRequestSchema(CommandFields):
    """The body of the process endpoint (section 4.3)."""

    external_account_number = fields.NormalIdentifier(
        "The number of a staged account.", "100000038", required=True
    )
    import_supplier_code = fields.NormalIdentifier(
        "Code of the account's import supplier.", "DEMO_SUPPLIER", required=True
    )
    operations_team_name = fields.Identifier(
        "The operations team of the account. It must exist.", "Migration Team", required=True
    )
    dry_run = fields.Flag(
        "Do everything, then roll it back. The status is 400 even if it succeeds.", False, load_default=False
    )


LARGEST_PAGE = 100_000


class ListArgumentsSchema(Fields):
    """The query string of a list."""

    limit = PageSize(
        "At most this many entries, 1 to 100,000. The Link header leads to the next page.",
        1_000,
        largest=LARGEST_PAGE,
    )
    cursor = Cursor("NCGH5BLqMTAwMDAwMDM4", read_number_cursor, max_length=1_000)


class OwnerListArgumentsSchema(ListArgumentsSchema):
    """The query string of the list of created accounts."""

    owner = fields.Choice(Owner, "Only accounts of this owner: `new` if they have gone live.", "new")


class StagedAccountSchema(AnswerSchema):
    """The response of the stage endpoint (section 4.2)."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    external_account_number = answers.String("The number of the staged account.", "100000038")
    result = answers.String(
        "STAGED for the first payload of the account, REPLACED if it replaced another payload, "
        "UNCHANGED if the same payload was already staged.",
        "STAGED",
        words=StagingResult,
    )


class CreatedAccountSchema(AnswerSchema):
    """The response of the process endpoint (section 4.3)."""

    service_account_number = answers.String("The created account's number.", "A-7KX2M9QD")


class AcceptedAccountSchema(AnswerSchema):
    """The response of the process endpoint if it does not wait for the account."""

    status = answers.String("The account is being created.", "IN_PROGRESS", words=["IN_PROGRESS"])
    external_account_number = answers.String("The number of the account.", "100000038")
    attempt_id = answers.UUID(
        "The attempt that `Location` points to.", "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
    )


class AccountStatusSchema(AnswerSchema):
    """The response of the status endpoint (section 4.4)."""

    status = answers.String(
        "COMPLETED if the account exists, IN_PROGRESS if it is being created, otherwise UNKNOWN.",
        "COMPLETED",
        words=["UNKNOWN", "IN_PROGRESS", "COMPLETED"],
    )
    service_account_number = answers.String("The account's number. Empty until it exists.", "A-7KX2M9QD")


class ListedImportSchema(AnswerSchema):
    """An entry of a list (section 4.5)."""

    external_account_number = answers.String("The account's number in the supplier's system.", "100000038")
    service_account_number = answers.String(
        "The account's number. Null until it exists.", "A-7KX2M9QD", allow_none=True
    )
    account_created_at = answers.Moment(
        "When the account was created, in UTC. Null until it exists.", "2026-03-01T12:00:00Z", allow_none=True
    )


class ErrorObjectSchema(AnswerSchema):
    """An error in a list (section 7.2)."""

    detail = answers.String("What is wrong, for people. It may change.", "This field is required.")
    code = answers.String("What is wrong, for programs. It is stable.", "required")
    attr = answers.String("The path to the value at fault, or null.", "customers.1.landline", allow_none=True)


class SuggestionSchema(AnswerSchema):
    """A change to the payload. All changes of a finding together are its correction."""

    optional = frozenset({"value"})

    op = answers.String(
        "Put another value there, add a member, or leave out a member or an item of a list.",
        "replace",
        words=Operation,
    )
    path = answers.String(
        "The path of the value to change.", "supply_addresses.0.meter_points.0.supply_start_date"
    )
    value = answers.Raw("The value to put there. Absent if it is removed.", "2022-12-01")
    confidence = answers.String(
        "`certain`: the same in another form. `likely`: it follows from the value or from others. "
        "`guess`: only your system knows.",
        "certain",
        words=Confidence,
    )
    kind = answers.String("What the correction does. It is stable.", "date_in_iso")


class FindingSchema(ErrorObjectSchema):
    """An error or a warning of an account payload."""

    optional = frozenset({"suggestions"})

    suggestions = answers.List(
        SuggestionSchema,
        "The correction: apply all of them. Absent if none is known, or if it has a value of a person.",
    )


class LineErrorObjectSchema(ErrorObjectSchema):
    """An error or warning of a line of a batch."""

    value = answers.String(
        "The value at fault, cut after 200 characters. Null if the line has no value there.",
        "onbekend",
        allow_none=True,
    )


class ErrorBodySchema(AnswerSchema):
    """The body of every error (section 7.2)."""

    detail = answers.String("What is wrong, for people. It may change.", "The account payload has errors.")
    code = answers.String("What is wrong, for programs. It is stable.", "account_failed_validation")
    errors = answers.List(
        ErrorObjectSchema,
        "Every error, each with its path.",
        [{"detail": "This field is required.", "code": "required", "attr": "ledgers.0.ledger_code"}],
    )


class AccountErrorBodySchema(ErrorBodySchema):
    """The body of a 400, including the one for an account that was already imported (section 4.3)."""

    optional = frozenset({"external_account_number", "service_account_number"})

    external_account_number = answers.String("Only with the code account_already_imported.", "100000038")
    service_account_number = answers.String("Only with the code account_already_imported.", "A-7KX2M9QD")
