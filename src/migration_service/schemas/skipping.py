"""The body and response of skipping accounts."""

from migration_payloads.schemas.base import AnswerSchema, CommandFields
from migration_payloads.schemas.fields import Identifier, NormalIdentifier, Values
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by


class SkipBodySchema(CommandFields):
    """The body for skipping accounts."""

    import_supplier = NormalIdentifier(
        "Code of the accounts' import supplier.", "DEMO_SUPPLIER", required=True
    )
    external_account_numbers = Values(
        NormalIdentifier(), "The numbers of the accounts.", ["10000001"], required=True
    )
    reason = Identifier(
        "Why they are left out. It is kept: no personal data.",
        "No longer in the book of the second delivery.",
        required=True,
        max_length=1_000,
    )
    by = decided_by()


class SkippedAnswerSchema(AnswerSchema):
    """How many accounts are skipped."""

    skipped = answers.Integer("Accounts of the request, which are all skipped now.", 1)
