"""Reconciliation: what was sent, what is open, and whether created accounts match what was staged."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from flask import Response, jsonify, url_for

from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import json_body, query_arguments
from migration_service.blueprints.requests.description_headers import CSV
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_path
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream, stream_array
from migration_service.schemas import reconciliation
from migration_service.services.access.api_keys import get_api_key_name
from migration_service.services.reconciliation import acknowledgements, comparisons, receipts
from migration_service.services.reconciliation.created_accounts import stream_id_map
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.services.reconciliation.verdict import describe_progress, judge, stream_reconciliation
from migration_service.states import Problem

_ACKNOWLEDGEMENTS = reconciliation.AcknowledgementAnswerSchema(many=True)

#: Seconds for which a request compares, and after which it may ask again.
WAIT, _ASK_AGAIN = 10.0, 5

blueprint = make_blueprint("reconciliation", "reconciliation", "Compare what was sent with what was created.")


_ACKNOWLEDGEMENT_EXAMPLE = {
    "external_account_numbers": ["10000002", "10000007"],
    "reason": "Moved to another supplier before the migration.",
}
_EXAMPLE = reconciliation.ReconciliationAnswerSchema.example(
    sent=reconciliation.SentAnswerSchema.example(added_lines_refused=0),
    open=[
        reconciliation.OpenItemAnswerSchema.example(
            external_account_number="10000002",
            errors=[
                {
                    "detail": "This is not a telephone number.",
                    "code": "invalid_phone_number",
                    "attr": "customers.0.mobile",
                }
            ],
        )
    ],
    differences=[
        reconciliation.AccountDifferenceAnswerSchema.example(
            external_account_number="10000003", differences=[]
        )
    ],
    totals=[
        {"measure": "accounts", "staged": 99_999, "created": 99_999},
        {"measure": "ledger_balances", "staged": -1204.55, "created": -1204.55},
    ],
    compared=99_999,
    not_comparable=0,
    not_compared=list(NOT_COMPARED),
    problems=[{"problem": "OPEN", "number": 1}, {"problem": "DIFFERING", "number": 1}],
)
_RECEIPT = reconciliation.ReceiptAnswerSchema.example(batch_id=None)
_EXCEPTION = {"problem": "DIFFERING", "reason": "The meter was replaced meanwhile.", "by": "Grace"}
_RECEIPT_ERRORS = (errors.BatchStateError, errors.ImportSupplierNotFoundError, errors.BatchNotFoundError)
_ID_MAP_EXAMPLE = (
    "external_account_number,service_account_number,account_created_at\r\n"
    "10000001,A-7KX2M9QD,2026-03-01T10:15:00Z\r\n"
)


@blueprint.get("/<import_supplier_code>/", endpoint="reconcile_import_supplier")
@query_arguments(reconciliation.ReconciliationArgumentsSchema())
@blueprint.response(200, reconciliation.ReconciliationAnswerSchema, example=_EXAMPLE)
@blueprint.alt_response(
    202,
    schema=reconciliation.ComparingAnswerSchema,
    description="Workers go on comparing. The Location has the answer once they have ended.",
)
@answers_errors(errors.BatchStateError, errors.ImportSupplierNotFoundError, errors.BatchNotFoundError)
@database_searches()
def reconcile(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Compare what was sent with what was created, account by account

    `sent` counts what was sent by outcome. `open` lists what was neither created nor skipped nor
    acknowledged. The other members compare every value of the created accounts with what was staged: `values`
    has the path of each value that differs, and `totals` has counts and sums of all accounts, exact to the
    cent. Data that was added to the accounts later is not included. Data added by batches is compared with
    the lines of those batches, in counts and sums (`added ...`). For a batch of added data, `sent`, `open`
    and the comparison are about its lines only. A second comparison reads again only the accounts of which
    something has changed, or all of them with `full`. `not_compared` lists what is not compared.
    `created_clean` is true if something was compared and nothing differs, `complete` if nothing is open or
    was removed while it was open, and `clean` if there are no `problems`. A comparison that takes longer than
    ten seconds is answered with 202, and goes on: follow the Location.
    """
    sessions = resources().Session
    with sessions.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        batch_id = comparisons.get_batch_to_reconcile(session, arguments.get("batch"), supplier)
        wanted, is_full = _read_id(arguments), arguments["full"]
        comparison_id = comparisons.resume_comparison(session, supplier, batch_id, wanted, is_full=is_full)
    if comparison_id and not comparisons.wait_for_comparison(sessions, comparison_id, seconds=WAIT):
        with sessions.begin() as session:
            progress = describe_progress(session, comparison_id)
        if progress is not None:
            response = jsonify(progress)
            query: dict[str, Any] = {"batch": batch_id, "comparison": comparison_id}
            response.headers["Location"] = url_for(
                "reconciliation.reconcile_import_supplier", import_supplier_code=supplier.code, **query
            )
            response.headers["Retry-After"] = str(_ASK_AGAIN)
            response.status_code = 202
            return response

    def pieces() -> Iterator[bytes]:
        with sessions.begin() as session:
            verdict = judge(session, supplier.id, batch_id)
        yield from stream_reconciliation(sessions, supplier, verdict, batch_id=batch_id)

    return stream(pieces(), "application/json")


def _read_id(arguments: dict[str, Any]) -> UUID | None:
    """Return the id of the wanted comparison."""
    given = arguments.get("comparison")
    try:
        return given and UUID(given)
    except ValueError:
        item = errors.ErrorItem("invalid", "This is not the id of a comparison.", "comparison")
        raise errors.RequestFailedValidationError(item.detail, errors=[item]) from None


@blueprint.post("/<import_supplier_code>/acknowledgements/")
@blueprint.response(201, reconciliation.AcknowledgedAnswerSchema, example={"acknowledged": 2})
@answers_errors(errors.BatchStateError, errors.ImportSupplierNotFoundError, errors.BatchNotFoundError)
@json_body(reconciliation.AcknowledgementBodySchema(), _ACKNOWLEDGEMENT_EXAMPLE)
@while_client_waits
def acknowledge_open(body: dict[str, Any], import_supplier_code: str) -> Any:
    """Acknowledge refused accounts or lines that will not be migrated

    Send a reason and account numbers, or a reason and a batch to acknowledge its lines without an account
    number, or its open lines of added data (all of them, or those in `line_numbers`). They no longer count
    as open in the reconciliation. An account that is refused again on a line of a later batch becomes open
    again.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        batch_id = comparisons.get_batch_to_reconcile(session, body.pop("batch", None), supplier)
        name = body.pop("by", None) or get_api_key_name(session, caller().api_key_id)
        order = acknowledgements.AcknowledgementOrder(**body, batch_id=batch_id, acknowledged_by=name)
        if not order.external_account_numbers and order.line_numbers is None:
            begin_answer(201)
        acknowledged = acknowledgements.acknowledge(session, supplier.id, order)
    return jsonify({"acknowledged": acknowledged}), 201


@blueprint.get("/<import_supplier_code>/acknowledgements/")
@blueprint.response(200, _ACKNOWLEDGEMENTS, example=None)
@answers_errors(errors.ImportSupplierNotFoundError)
def get_acknowledgements(import_supplier_code: str) -> Response:
    """List acknowledgements, newest first

    Each entry shows who acknowledged what, when and why. The whole array, streamed.
    """
    sessions = resources().Session
    with sessions.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)

    def pages() -> Iterator[str]:
        for found in acknowledgements.read_acknowledgements(sessions, supplier.id):
            yield encode_json(_ACKNOWLEDGEMENTS.dump(found)).decode()[1:-1]

    return stream_array(pages())


@blueprint.get("/<import_supplier_code>/receipt/")
@query_arguments(reconciliation.ReceiptArgumentsSchema())
@blueprint.response(200, reconciliation.ReceiptAnswerSchema, example=_RECEIPT)
@answers_errors(*_RECEIPT_ERRORS)
@database_searches()
def get_receipt(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Get the receipt of a supplier or a batch

    What the kept comparison found, with the hashes of the files and the exceptions that were accepted. A
    go-live asks for one that is recent and has nothing open.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        batch_id = comparisons.get_batch_to_reconcile(session, arguments.get("batch"), supplier)
        return jsonify(receipts.read_receipt(session, supplier, batch_id).as_json())


@blueprint.post("/<import_supplier_code>/receipt/exceptions/")
@blueprint.response(201, reconciliation.ReceiptAnswerSchema, example=_RECEIPT)
@answers_errors(*_RECEIPT_ERRORS, errors.NoReceiptError)
@json_body(reconciliation.ReceiptExceptionBodySchema(), _EXCEPTION)
def accept_exception(body: dict[str, Any], import_supplier_code: str) -> Any:
    """Accept something that is open in a receipt

    Send the problem and a reason. Of `DIFFERING`, one account can be named. The exception holds until the
    next comparison.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        batch_id = comparisons.get_batch_to_reconcile(session, body.get("batch"), supplier)
        receipt = receipts.accept_exception(
            session,
            supplier,
            batch_id,
            Problem(body["problem"]),
            reason=body["reason"],
            by=body.get("by"),
            external_account_number=body.get("external_account_number"),
        )
        return jsonify(receipt.as_json()), 201


@blueprint.get("/<import_supplier_code>/id-map/")
@blueprint.response(200, CSV, content_type="text/csv", example=_ID_MAP_EXAMPLE)
@answers_errors(errors.ImportSupplierNotFoundError)
def get_id_map(import_supplier_code: str) -> Response:
    """List the external and the new number of every created account

    CSV with a header, streamed.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
    pieces = stream_id_map(resources().Session, supplier.id)
    return stream(pieces, "text/csv; charset=utf-8")
