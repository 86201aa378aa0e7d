"""Skipping accounts that are left out of the migration."""

from collections.abc import Sequence
from typing import Any

from flask import Response, jsonify
from sqlalchemy.orm import Session

from migration_payloads.schemas.base import AnswerSchema, CommandFields
from migration_payloads.schemas.fields import NormalIdentifier, Values
from migration_service import errors
from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body
from migration_service.blueprints.requests.interface import make_blueprint, supplier_in_body
from migration_service.blueprints.requests.places import database_searches
from migration_service.blueprints.requests.resources import resources
from migration_service.db.sql import OpenTransaction
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.services.imports import storing
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.imports.states import refusal
from migration_service.states import ImportState


class SkipBodySchema(CommandFields):
    """The body for skipping accounts."""

    import_supplier = NormalIdentifier(
        "Code of the accounts' import supplier.", "DEMO_SUPPLIER", required=True
    )
    external_account_numbers = Values(
        NormalIdentifier(), "The numbers of the accounts.", ["10000001"], required=True
    )
    reason = reason_of("No longer in the book of the second delivery.", "Why they are left out.")
    by = decided_by()


class SkippedAnswerSchema(AnswerSchema):
    """How many accounts are skipped."""

    skipped = answers.Integer("Accounts of the request, which are all skipped now.", 1)


blueprint = make_blueprint("skipping", "account-import-process/skip", "Leave accounts out.")

_EXAMPLE = {
    "import_supplier": SUPPLIER,
    "external_account_numbers": ["10000001"],
    "reason": "No longer in the book of the second delivery.",
}


@blueprint.post("/", endpoint="skip_accounts")
@blueprint.response(200, SkippedAnswerSchema)
@answers_errors(errors.ImportSupplierNotFoundInBodyError)
@json_body(SkipBodySchema(), _EXAMPLE)
@database_searches()
def skip(body: dict[str, Any]) -> Response:
    """Skip accounts that will not be migrated

    They are neither staged nor created until the operator includes them again, staged or not. If one of them
    is being created or exists, nothing is changed: undo it first. Repeating the request is harmless.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_body(session, body)
        numbers = list(dict.fromkeys(body["external_account_numbers"]))
        try:
            skip_accounts(session, supplier.id, numbers, reason=body["reason"], by=body.get("by"))
        except (errors.AccountAlreadyImportedError, errors.AccountImportInProgressError) as error:
            items = _list_faults(session, supplier.id, body["external_account_numbers"])
            if not items:  # one that was being created meanwhile has failed
                raise
            raise errors.RequestFailedValidationError(items[0].detail, errors=items) from error
    return jsonify({"skipped": len(numbers)})


def _list_faults(session: Session, supplier_id: int, numbers: Sequence[str]) -> list[errors.ErrorItem]:
    """Return an error with each account that exists, or is being created."""
    found = storing.find(OpenTransaction.of(session), supplier_id, numbers)
    return [
        errors.ErrorItem(
            fault.code, f"Account {number!r}: {fault.detail}", f"external_account_numbers.{index}"
        )
        for index, number in enumerate(numbers)
        if (it := found.get(number)) and it.state != ImportState.SKIPPED
        if (fault := refusal(it.state, number, it.service_account_number))
    ]
