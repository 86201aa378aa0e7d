"""Reconciliation: what was staged against what was created."""

from collections.abc import Iterator
from typing import Any

from flask import Response, stream_with_context
from flask_smorest import Blueprint
from marshmallow import fields

from migration_service.blueprints.auth import caller, require_token
from migration_service.blueprints.body import query_arguments
from migration_service.blueprints.examples import SUPPLIER
from migration_service.blueprints.openapi import answers_errors
from migration_service.blueprints.resources import resources
from migration_service.errors import (
    BatchNotFoundError,
    BatchStateError,
    ImportSupplierNotFoundError,
    RequestFailedValidationError,
)
from migration_service.schemas.base import Fields
from migration_service.schemas.fields import Identifier
from migration_service.schemas.json import encode_json
from migration_service.services.batches.steering import get_batch_to_reconcile
from migration_service.services.reporting.reconciliation import Totals, find_differences, stream_id_map
from migration_service.services.setup.suppliers import get_import_supplier

blueprint = Blueprint(
    "reconciliation",
    __name__,
    url_prefix="/v1/data-import/reconciliation",
    description="Prove that what was staged is what was created.",
)
blueprint.before_request(require_token)


class ReconciliationArguments(Fields):
    """The query string of a reconciliation."""

    batch = Identifier(metadata={"description": "Only the accounts that are on the lines of this batch."})


class DifferenceAnswer(Fields):
    """A measure in which an account, or everything together, was staged and created."""

    measure = fields.String()
    staged = fields.Float()
    created = fields.Float()


class AccountDifferenceAnswer(Fields):
    """An account that is not as it was staged."""

    external_account_number = fields.String()
    service_account_number = fields.String(allow_none=True)
    state = fields.String()
    differences = fields.List(fields.Nested(DifferenceAnswer))


class ReconciliationAnswer(Fields):
    """What was staged against what was created."""

    import_supplier = fields.String()
    differences = fields.List(fields.Nested(AccountDifferenceAnswer))
    totals = fields.List(fields.Nested(DifferenceAnswer))
    skipped = fields.Integer(metadata={"description": "Accounts that operators took out: in no total."})
    not_comparable = fields.Integer(
        metadata={"description": "Created accounts whose staged payload is not kept any more."}
    )
    differing = fields.Integer(metadata={"description": "How many accounts differ."})
    clean = fields.Boolean(metadata={"description": "No account differs."})


_EXAMPLE = {
    "import_supplier": SUPPLIER,
    "differences": [
        {
            "external_account_number": "10000002",
            "service_account_number": None,
            "state": "PENDING",
            "differences": [{"measure": "accounts", "staged": 1, "created": 0}],
        }
    ],
    "totals": [
        {"measure": "accounts", "staged": 97_000, "created": 96_999},
        {"measure": "ledger_balances", "staged": -1204.55, "created": -1204.55},
    ],
    "skipped": 0,
    "not_comparable": 0,
    "differing": 1,
    "clean": False,
}


@blueprint.get("/<import_supplier_code>/")
@query_arguments(blueprint, ReconciliationArguments())
@blueprint.response(200, ReconciliationAnswer, example=_EXAMPLE)
@answers_errors(
    blueprint,
    RequestFailedValidationError,
    BatchStateError,
    ImportSupplierNotFoundError,
    BatchNotFoundError,
)
def reconcile(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """Compare what was staged with what was created, account by account

    Counts of accounts, customers, meter points, agreements, transactions and statements, and sums of ledger
    balances and of transactions by type, exact to the cent; what was added to the accounts afterwards is
    left out. Streamed: the accounts that differ first, the totals at the end.
    """
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
        batch_id = get_batch_to_reconcile(session, arguments.get("batch"), supplier)
    totals = Totals()

    def pieces() -> Iterator[bytes]:
        yield b'{"import_supplier":%b,"differences":[' % encode_json(supplier.code)
        comma = b""
        for account in find_differences(resources().Session, supplier.id, totals, batch_id=batch_id):
            yield comma + encode_json(account)
            comma = b","
        yield b"]," + encode_json(totals.to_dict())[1:]

    return Response(stream_with_context(pieces()), mimetype="application/json")


@blueprint.get("/<import_supplier_code>/id-map/")
@blueprint.response(200, content_type="text/csv")
@answers_errors(blueprint, ImportSupplierNotFoundError)
def get_id_map(import_supplier_code: str) -> Response:
    """The old and the new number of every account that was created, as CSV, streamed"""
    with resources().Session.begin() as session:
        supplier = get_import_supplier(
            session, import_supplier_code, organisation_id=caller().organisation_id
        )
    pieces = stream_id_map(resources().Session, supplier.id)
    return Response(stream_with_context(pieces), mimetype="text/csv")
