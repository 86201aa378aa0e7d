"""The bodies, query strings and responses of certificates."""

from typing import Any

from marshmallow import validates_schema
from marshmallow.exceptions import ValidationError

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.messages import Message
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by
from migration_service.schemas.paging import Cursor, page_limit
from migration_service.schemas.undo import UndoneWaveSchema

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_CERTIFICATE_ID = "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a91"
_MOMENT = "2026-03-02T08:00:00Z"


class CertificateBodySchema(CommandFields):
    """The body for a certificate: of a supplier's book, or of the accounts of a batch or a wave."""

    import_supplier = fields.NormalIdentifier("Code of the import supplier.", "DEMO_SUPPLIER", required=True)
    batch = fields.Scope("Only the accounts on the lines of this batch.", _BATCH_ID)
    wave = fields.Object(
        UndoneWaveSchema, "Only the accounts of this wave.", {"plan_id": _PLAN_ID, "number": 1}
    )
    by = decided_by()

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a batch and a wave together."""
        if "batch" in data and "wave" in data:
            raise ValidationError(Message("Expected either a batch or a wave.", "invalid"), "wave")


class CertificateListArgumentsSchema(Fields):
    """The query string of the list of certificates."""

    import_supplier = fields.Scope("Only certificates of this import supplier.", "DEMO_SUPPLIER")
    limit = page_limit("certificates")
    cursor = Cursor(_CERTIFICATE_ID, max_length=128)


class CertificateAnswerSchema(AnswerSchema):
    """A certificate, and how far it is."""

    certificate_id = answers.UUID("Its id.", _CERTIFICATE_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID("The batch, or null for a whole book.", _BATCH_ID, allow_none=True)
    requested_by = answers.String("Who asked for it.", "Grace")
    created_at = answers.Moment("When it was asked for, in UTC.", _MOMENT)
    finished_at = answers.Moment("When it was signed, in UTC, or null.", _MOMENT, allow_none=True)
    accounts = answers.Integer("The number of accounts in it, so far.", 100_000)
    clean = answers.Boolean("Whether its receipt is clean. Null until it has ended.", True, allow_none=True)
    public_key = answers.String(
        "The public key with which it can be verified, in hexadecimal. Null until it has ended.",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        allow_none=True,
    )
