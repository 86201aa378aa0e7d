"""Bodies and query strings of the endpoints, and what they answer (section 4)."""

from marshmallow import fields

from migration_service.schemas.base import Answer, Fields
from migration_service.schemas.fields import Choice, Flag, Identifier, WholeNumber
from migration_service.states import Profile


class ProcessRequestSchema(Fields):
    """The body of the process endpoint (section 4.3)."""

    external_account_number = Identifier(required=True)
    import_supplier_code = Identifier(required=True)
    operations_team_name = Identifier(required=True)
    dry_run = Flag(load_default=False)


class ValidateArgumentsSchema(Fields):
    """The query string of the validate endpoint."""

    profile = Choice(
        Profile,
        metadata={
            "description": "Validate under this profile instead of the supplier's own.",
            "schema": {"type": "string", "enum": ["lenient", "strict"]},
        },
    )


class ListArgumentsSchema(Fields):
    """The query string of a list."""

    limit = WholeNumber(
        metadata={
            "description": "At most so many entries, 1 to 100,000; the Link header leads to the next page.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 100_000},
        }
    )
    cursor = Identifier(
        max_length=1_000, metadata={"description": "Where the page starts: taken from the Link header."}
    )


class StagedAccountSchema(Answer):
    """The answer of the stage endpoint (section 4.2)."""

    import_supplier = fields.String()
    external_account_number = fields.String()


class CreatedAccountSchema(Answer):
    """The answer of the process endpoint (section 4.3)."""

    service_account_number = fields.String(metadata={"example": "A-7KX2M9QD"})


class AcceptedAccountSchema(Answer):
    """The answer where the creation goes on after it."""

    status = fields.String(metadata={"enum": ["IN_PROGRESS"]})
    external_account_number = fields.String()


class AccountStatusSchema(Answer):
    """The answer of the status endpoint (section 4.4)."""

    status = fields.String(metadata={"enum": ["UNKNOWN", "IN_PROGRESS", "COMPLETED"]})
    service_account_number = fields.String(metadata={"description": "Empty until there is an account."})


class ListedImportSchema(Answer):
    """An entry of a list (section 4.5)."""

    external_account_number = fields.String()
    service_account_number = fields.String(allow_none=True)
    account_created_at = fields.DateTime(allow_none=True, metadata={"description": "In UTC."})


class ErrorObjectSchema(Answer):
    """One error of a list (section 7.2)."""

    detail = fields.String(metadata={"description": "For people; may change."})
    code = fields.String(metadata={"description": "Stable."})
    attr = fields.String(allow_none=True, metadata={"description": "The path to the value at fault."})


class ErrorBodySchema(Answer):
    """The body of every error (section 7.2)."""

    detail = fields.String(metadata={"description": "For people; may change."})
    code = fields.String(metadata={"description": "Stable."})
    errors = fields.List(fields.Nested(ErrorObjectSchema))


class AccountErrorBodySchema(ErrorBodySchema):
    """The body of a 400 that an account which was imported already is answered with, too (section 4.3)."""

    optional = frozenset({"external_account_number", "service_account_number"})

    external_account_number = fields.String(
        metadata={"description": "Only with the code `account_already_imported`."}
    )
    service_account_number = fields.String(
        metadata={"description": "Only with the code `account_already_imported`.", "example": "A-7KX2M9QD"}
    )
