"""The full report of validate and stage (`?report=full`)."""

from marshmallow import fields

from migration_service.schemas.account import AccountImportSchema
from migration_service.schemas.base import Fields
from migration_service.schemas.fields import Choice
from migration_service.schemas.requests import ErrorObjectSchema, ValidateArgumentsSchema
from migration_service.states import Report


class StageArgumentsSchema(Fields):
    """The query string of the stage endpoint."""

    report = Choice(
        Report,
        metadata={
            "description": "`full`: answer with everything that was found, warnings included.",
            "schema": {"type": "string", "enum": [it.value for it in Report]},
        },
    )


class ReportArgumentsSchema(StageArgumentsSchema, ValidateArgumentsSchema):
    """The query string of the validate endpoint."""


class ValidationReportSchema(Fields):
    """Everything that validation found."""

    valid = fields.Boolean(required=True)
    errors = fields.List(fields.Nested(ErrorObjectSchema), required=True)
    warnings = fields.List(fields.Nested(ErrorObjectSchema), required=True)
    account = fields.Nested(
        AccountImportSchema,
        required=True,
        allow_none=True,
        metadata={"description": "The data as it is stored; null if it has errors."},
    )
