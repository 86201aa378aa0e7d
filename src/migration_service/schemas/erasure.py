"""The body and response of the erasure of an account."""

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, CommandFields
from migration_service.schemas.fields import Identifier, NormalIdentifier, about


class ErasureBodySchema(CommandFields):
    """The body for erasing an account."""

    import_supplier = NormalIdentifier(
        required=True, metadata=about("Code of the account's import supplier.", "DEMO_SUPPLIER")
    )
    external_account_number = NormalIdentifier(
        required=True, metadata=about("The number of the account to erase.", "10000001")
    )
    reason = Identifier(
        required=True,
        max_length=1_000,
        metadata=about("The reason. It is kept: no personal data.", "Request 2026-117"),
    )


class ErasureAnswerSchema(AnswerSchema):
    """The erased data."""

    external_account_number = fields.String(metadata=about("The number of the account.", "10000001"))
    service_account_number = fields.String(
        allow_none=True, metadata=about("The created account's number, if it was created.", "A-7KX2M9QD")
    )
    payload = fields.Boolean(metadata=about("Whether a staged payload was removed.", True))
    batch_lines = fields.Integer(metadata=about("Lines of batches whose text was removed.", 1))
    customers = fields.Integer(metadata=about("Customers that were removed.", 2))
    kept_answers = fields.Integer(metadata=about("Stored responses to requests that were removed.", 0))
