"""The body and response of the erasure of an account."""

from migration_payloads.schemas.base import AnswerSchema, CommandFields
from migration_payloads.schemas.fields import Identifier, NormalIdentifier
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by


class ErasureBodySchema(CommandFields):
    """The body for erasing an account."""

    import_supplier = NormalIdentifier(
        "Code of the account's import supplier.", "DEMO_SUPPLIER", required=True
    )
    external_account_number = NormalIdentifier(
        "The number of the account to erase.", "10000001", required=True
    )
    reason = Identifier(
        "The reason. It is kept: no personal data.", "Request 2026-117", required=True, max_length=1_000
    )
    by = decided_by()


class ErasureAnswerSchema(AnswerSchema):
    """The erased data."""

    external_account_number = answers.String("The number of the account.", "10000001")
    service_account_number = answers.String(
        "The created account's number, if it was created.", "A-7KX2M9QD", allow_none=True
    )
    payload = answers.Boolean("Whether a staged payload was removed.", True)
    batch_lines = answers.Integer("Lines of batches whose text was removed.", 1)
    customers = answers.Integer("Customers that were removed.", 2)
    kept_answers = answers.Integer("Stored responses to requests that were removed.", 0)
