"""Erasure of one account's personal data, for the organisation that sent it."""

from typing import Any

from migration_payloads.schemas.base import AnswerSchema, CommandFields
from migration_payloads.schemas.fields import NormalIdentifier
from migration_service import errors
from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body
from migration_service.blueprints.requests.interface import make_blueprint, supplier_in_body
from migration_service.blueprints.requests.places import database_searches
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.services.accounts.erasure import erase_account


class ErasureBodySchema(CommandFields):
    """The body for erasing an account."""

    import_supplier = NormalIdentifier(
        "Code of the account's import supplier.", "DEMO_SUPPLIER", required=True
    )
    external_account_number = NormalIdentifier(
        "The number of the account to erase.", "10000001", required=True
    )
    reason = reason_of("Request 2026-117")
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


blueprint = make_blueprint(
    "erasure", "account-import-process/erase", "Erase the personal data of one account."
)

_EXAMPLE = {"import_supplier": SUPPLIER, "external_account_number": "10000001", "reason": "Request 2026-117"}


@blueprint.post("/", endpoint="erase_account")
@blueprint.response(200, ErasureAnswerSchema)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.AccountNotStagedError,
    errors.AccountImportInProgressError,
)
@json_body(ErasureBodySchema(), _EXAMPLE)
@database_searches()
def erase(body: dict[str, Any]) -> dict[str, Any]:
    """Erase the personal data of an account permanently

    Its two numbers are kept, and so are ledgers, transactions and statements, without their texts. An account
    that was not created is removed, and skipped from then on. Repeating the request is harmless.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_body(session, body)
        number = body["external_account_number"]
        return erase_account(session, supplier, number, reason=body["reason"], by=body.get("by"))
