"""The query string of reports."""

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.fields import WholeNumber


class ReportArgumentsSchema(Fields):
    """The query string of a report."""

    wave = WholeNumber(
        "With the id of a plan: only its wave with this number.",
        1,
        parameter={"type": "integer", "minimum": 1},
    )
