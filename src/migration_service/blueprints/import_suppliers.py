"""The organisation's import suppliers, with the counts of their accounts."""

from typing import Any

from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import ImportSupplierNotFoundError
from migration_service.schemas.attempts import ImportSupplierAnswerSchema
from migration_service.services.reporting import import_suppliers

blueprint = make_blueprint(
    "import_suppliers",
    "import-suppliers",
    "The organisation's import suppliers, and how many of their accounts are in each state.",
)

_EXAMPLE = ImportSupplierAnswerSchema.example()


@blueprint.get("/")
@blueprint.response(200, ImportSupplierAnswerSchema(many=True), example=[_EXAMPLE])
@answers_errors()
def list_import_suppliers() -> list[dict[str, Any]]:
    """List the organisation's import suppliers, by code

    Each one has its status, its profile, and the number of its accounts in each state.
    """
    with resources().Session.begin() as session:
        return import_suppliers.report_import_suppliers(session, caller().organisation_id)


@blueprint.get("/<import_supplier_code>/")
@blueprint.response(200, ImportSupplierAnswerSchema, example=_EXAMPLE)
@answers_errors(ImportSupplierNotFoundError)
def get_import_supplier(import_supplier_code: str) -> dict[str, Any]:
    """Get an import supplier

    Includes its status, its profile, and the number of its accounts in each state.
    """
    with resources().Session.begin() as session:
        return import_suppliers.report_import_supplier(
            session, caller().organisation_id, import_supplier_code
        )
