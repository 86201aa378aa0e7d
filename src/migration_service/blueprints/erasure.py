"""Erasure of one account's personal data, for the organisation that sent it."""

from typing import Any

from migration_service import errors
from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body
from migration_service.blueprints.requests.interface import make_blueprint
from migration_service.blueprints.requests.names import supplier_in_body
from migration_service.blueprints.requests.places import database_searches
from migration_service.blueprints.requests.resources import resources
from migration_service.schemas.erasure import ErasureAnswerSchema, ErasureBodySchema
from migration_service.services.accounts.erasure import Erasure, erase_account

blueprint = make_blueprint(
    "erasure", "account-import-process/erase", "Erase the personal data of one account."
)

_EXAMPLE = {"import_supplier": SUPPLIER, "external_account_number": "10000001", "reason": "Request 2026-117"}


@blueprint.post("/", endpoint="erase_account")
@blueprint.response(200, ErasureAnswerSchema, example=ErasureAnswerSchema.example())
@answers_errors(
    blueprint,
    errors.ImportSupplierNotFoundInBodyError,
    errors.AccountNotStagedError,
    errors.AccountImportInProgressError,
)
@json_body(blueprint, ErasureBodySchema(), _EXAMPLE)
@database_searches()
def erase(body: dict[str, Any]) -> Erasure:
    """Erase the personal data of an account permanently

    Its two numbers are kept, and so are ledgers, transactions and statements, without their texts. An account
    that was not created is removed, and skipped from then on. Repeating the request is harmless.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_body(session, body)
        number = body["external_account_number"]
        return erase_account(session, supplier, number, reason=body["reason"], by=body.get("by"))
