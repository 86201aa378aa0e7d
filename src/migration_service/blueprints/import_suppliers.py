"""The organisation's import suppliers, with the counts of their accounts."""

from typing import Any

from migration_payloads.profile import Profile
from migration_payloads.schemas.base import AnswerSchema
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import ImportSupplierNotFoundError
from migration_service.schemas import answers
from migration_service.services.reporting.import_suppliers import (
    report_import_supplier,
    report_import_suppliers,
)
from migration_service.states import EmailMoment, ImportState, SupplierStatus


class ImportSupplierAnswerSchema(AnswerSchema):
    """An import supplier of the organisation, with the number of its accounts in each state."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    status = answers.String(
        "Whether it may stage and create accounts: only while it is Ongoing.", "Ongoing", words=SupplierStatus
    )
    profile = answers.String("The profile of its payloads.", "lenient", words=Profile)
    time_zone = answers.String(
        "Its time zone, which determines today's date for its data.", "Europe/Amsterdam"
    )
    customer_emails = answers.Boolean("Whether customers get an e-mail about their account.", True)
    emails_at = answers.String(
        "When they are sent. Until then they are held.", "at_go_live", words=EmailMoment
    )
    emails_from = answers.Moment("The moment of `at_moment`, in UTC.", None, allow_none=True)
    emails_held = answers.Integer("The number of held e-mails.", 1_192)
    counts = answers.Dict(
        "Accounts by state.",
        {"PENDING": 2_900, "IN_PROGRESS": 100, "IMPORTED": 97_000, "SKIPPED": 0},
        openapi={
            "type": "object",
            "properties": {state.value: {"type": "integer"} for state in ImportState},
            "required": [state.value for state in ImportState],
            "additionalProperties": {"type": "integer"},
        },
    )


blueprint = make_blueprint(
    "import_suppliers",
    "import-suppliers",
    "The organisation's import suppliers, and how many of their accounts are in each state.",
)


@blueprint.get("/")
@blueprint.response(200, ImportSupplierAnswerSchema(many=True))
@answers_errors()
def list_import_suppliers() -> list[dict[str, Any]]:
    """List the organisation's import suppliers, by code

    Each one has its status, its profile, and the number of its accounts in each state.
    """
    with resources().Session.begin() as session:
        return report_import_suppliers(session, caller().organisation_id)


@blueprint.get("/<import_supplier_code>/")
@blueprint.response(200, ImportSupplierAnswerSchema)
@answers_errors(ImportSupplierNotFoundError)
def get_import_supplier(import_supplier_code: str) -> dict[str, Any]:
    """Get an import supplier

    Includes its status, its profile, and the number of its accounts in each state.
    """
    with resources().Session.begin() as session:
        return report_import_supplier(session, caller().organisation_id, import_supplier_code)
