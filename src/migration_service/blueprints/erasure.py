"""Erasure of one account's personal data, for the organisation that sent it."""

from typing import Any

from flask_smorest import Blueprint

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.auth import caller, require_token
from migration_service.blueprints.requests.body import json_body
from migration_service.blueprints.requests.places import database_searches
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import (
    AccountImportInProgressError,
    AccountNotStagedError,
    ImportSupplierNotFoundInBodyError,
    ParseError,
    RequestFailedValidationError,
)
from migration_service.schemas.erasure import ErasureAnswerSchema, ErasureBodySchema
from migration_service.services.accounts.erasure import Erasure, erase_account
from migration_service.services.setup.suppliers import get_import_supplier

blueprint = Blueprint(
    "erasure",
    __name__,
    url_prefix="/v1/data-import/account-import-process/erase",
    description="Erase the personal data of one account.",
)
blueprint.before_request(require_token)

_EXAMPLE = {"import_supplier": SUPPLIER, "external_account_number": "10000001", "reason": "Request 2026-117"}
_ERASED_EXAMPLE = {
    "external_account_number": "10000001",
    "service_account_number": "A-7KX2M9QD",
    "payload": True,
    "batch_lines": 1,
    "customers": 2,
    "kept_answers": 0,
}


@blueprint.post("/", endpoint="erase_account")
@blueprint.response(200, ErasureAnswerSchema, example=_ERASED_EXAMPLE)
@answers_errors(
    blueprint,
    RequestFailedValidationError,
    ImportSupplierNotFoundInBodyError,
    AccountNotStagedError,
    AccountImportInProgressError,
    ParseError,
)
@json_body(blueprint, ErasureBodySchema(), _EXAMPLE)
@database_searches()
def erase(body: dict[str, Any]) -> Erasure:
    """Erase the personal data of an account permanently

    Its two numbers are kept, and so are ledgers, transactions and statements, without their texts. An account
    that was not created is removed, and skipped from then on. Repeating the request is harmless.
    """
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session,
            body["import_supplier"],
            organisation_id=caller().organisation_id,
            error=ImportSupplierNotFoundInBodyError,
        )
        return erase_account(session, supplier, body["external_account_number"], reason=body["reason"])
