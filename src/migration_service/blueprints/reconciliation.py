"""Reconciliation: what was sent, what is open, and whether created accounts match what was staged."""

from typing import Any

from flask import Response, jsonify, stream_with_context
from flask_smorest import Blueprint

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.auth import caller, require_token
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import CSV
from migration_service.blueprints.requests.names import check_names
from migration_service.blueprints.requests.places import database_searches
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream
from migration_service.errors import (
    BatchNotFoundError,
    BatchStateError,
    ImportSupplierNotFoundError,
    ParseError,
    RequestFailedValidationError,
)
from migration_service.schemas.book_totals import BOOK
from migration_service.schemas.reconciliation import (
    AcknowledgedAnswerSchema,
    AcknowledgementAnswerSchema,
    AcknowledgementBodySchema,
    ReconciliationAnswerSchema,
    ReconciliationArgumentsSchema,
)
from migration_service.services.access.api_keys import get_api_key_name
from migration_service.services.batches.control import get_batch_to_reconcile
from migration_service.services.reconciliation.acknowledgements import (
    AcknowledgementOrder,
    acknowledge,
    list_acknowledgements,
)
from migration_service.services.reconciliation.created_accounts import stream_id_map, stream_reconciliation
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.services.reconciliation.submitted import count_submitted
from migration_service.services.setup.suppliers import get_import_supplier

blueprint = Blueprint(
    "reconciliation",
    __name__,
    url_prefix="/v1/data-import/reconciliation",
    description="Compare what was sent with what was created.",
)
blueprint.before_request(require_token)
blueprint.before_request(check_names)


_ACKNOWLEDGEMENT_EXAMPLE = {
    "external_account_numbers": ["10000002", "10000007"],
    "reason": "Moved to another supplier before the migration.",
}
_EXAMPLE = {
    "import_supplier": SUPPLIER,
    "sent": {
        "sent": 100_000,
        "refused": 1,
        "waiting": 0,
        "staged": 0,
        "created": 99_999,
        "skipped": 0,
        "acknowledged": 0,
        "open": 1,
        "lines_removed": 0,
        "staged_older_version": 0,
        "created_older_version": 0,
        "added_lines_refused": 0,
    },
    "open": [
        {
            "external_account_number": "10000002",
            "reason": "REFUSED",
            "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
            "line_number": 17,
            "errors": [
                {
                    "detail": "This is not a telephone number.",
                    "code": "invalid_phone_number",
                    "attr": "customers.0.mobile",
                }
            ],
        }
    ],
    "book": BOOK,
    "differences": [
        {
            "external_account_number": "10000003",
            "service_account_number": "A-7KX2M9QD",
            "differences": [],
            "values": [{"path": "statements.0.gross_amount", "staged": 4928, "created": 5928}],
        }
    ],
    "totals": [
        {"measure": "accounts", "staged": 99_999, "created": 99_999},
        {"measure": "ledger_balances", "staged": -1204.55, "created": -1204.55},
    ],
    "compared": 99_999,
    "not_comparable": 0,
    "not_compared": list(NOT_COMPARED),
    "differing": 1,
    "created_clean": False,
    "complete": False,
    "clean": False,
}


_ID_MAP_EXAMPLE = (
    "external_account_number,service_account_number,account_created_at\r\n"
    "10000001,A-7KX2M9QD,2026-03-01T10:15:00Z\r\n"
)


@blueprint.get("/<import_supplier_code>/", endpoint="reconcile_import_supplier")
@query_arguments(blueprint, ReconciliationArgumentsSchema())
@blueprint.response(200, ReconciliationAnswerSchema, example=_EXAMPLE)
@answers_errors(
    blueprint,
    RequestFailedValidationError,
    BatchStateError,
    ImportSupplierNotFoundError,
    BatchNotFoundError,
)
@database_searches()
def reconcile(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Compare what was sent with what was created, account by account

    `sent` counts what was sent by outcome. `open` lists what was neither created nor skipped nor
    acknowledged. The other members compare every value of the created accounts with what was staged: `values`
    has the path of each value that differs, and `totals` has counts and sums of all accounts, exact to the
    cent. Data that was added to the accounts later is not included. Data added by batches is compared with
    the lines of those batches, in counts and sums (`added ...`). For a batch of added data, `sent`, `open`
    and the comparison are about its lines only. `not_compared` lists what is not compared. `created_clean` is
    true if something was compared and nothing differs, `complete` if nothing is open, and `clean` if both are
    true. The response is streamed.
    """
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
        batch_id = get_batch_to_reconcile(session, arguments.get("batch"), supplier)
        sent = count_submitted(session, supplier.id, batch_id=batch_id)
    pieces = stream_reconciliation(resources().Session, supplier, sent, batch_id=batch_id)
    return stream(stream_with_context(pieces), "application/json")


@blueprint.post("/<import_supplier_code>/acknowledgements/")
@blueprint.response(201, AcknowledgedAnswerSchema, example={"acknowledged": 2})
@answers_errors(
    blueprint,
    RequestFailedValidationError,
    ParseError,
    BatchStateError,
    ImportSupplierNotFoundError,
    BatchNotFoundError,
)
@json_body(blueprint, AcknowledgementBodySchema(), _ACKNOWLEDGEMENT_EXAMPLE)
def acknowledge_open(body: dict[str, Any], import_supplier_code: str) -> Any:
    """Acknowledge refused accounts or lines that will not be migrated

    Send a reason and account numbers, or a reason and a batch to acknowledge its lines without an account
    number (all of them, or those in `line_numbers`). They no longer count as open in the reconciliation. An
    account that is refused again becomes open again.
    """
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
        batch_id = get_batch_to_reconcile(session, body.pop("batch", None), supplier)
        name = get_api_key_name(session, caller().api_key_id)
        order = AcknowledgementOrder(**body, batch_id=batch_id, acknowledged_by=name)
        acknowledged = acknowledge(session, supplier.id, order)
    return jsonify({"acknowledged": acknowledged}), 201


@blueprint.get("/<import_supplier_code>/acknowledgements/")
@blueprint.response(200, AcknowledgementAnswerSchema(many=True))
@answers_errors(blueprint, RequestFailedValidationError, ImportSupplierNotFoundError)
def get_acknowledgements(import_supplier_code: str) -> Response:
    """List acknowledgements, newest first

    Each entry shows who acknowledged what, when and why.
    """
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
        found = list_acknowledgements(session, supplier.id)
    return jsonify(AcknowledgementAnswerSchema(many=True).dump(found))


@blueprint.get("/<import_supplier_code>/id-map/")
@blueprint.response(200, CSV, content_type="text/csv", example=_ID_MAP_EXAMPLE)
@answers_errors(blueprint, RequestFailedValidationError, ImportSupplierNotFoundError)
def get_id_map(import_supplier_code: str) -> Response:
    """List the external and the new number of every created account

    CSV with a header, streamed.
    """
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
    pieces = stream_id_map(resources().Session, supplier.id)
    return stream(stream_with_context(pieces), "text/csv; charset=utf-8")
