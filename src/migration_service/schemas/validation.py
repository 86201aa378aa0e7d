"""The full report of validate and stage (`?report=full`)."""

import json
from pathlib import Path

from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_payloads.schemas.fields import Choice
from migration_service.schemas import answers, requests
from migration_service.schemas.extracts import extract_moment
from migration_service.states import Report


class _ReportFields(Fields):
    report = Choice(Report, "`full`: respond with all findings, including warnings.", "full")


class StageArgumentsSchema(_ReportFields):
    """The query string of the stage endpoint."""

    extracted_at = extract_moment()


class ReportArgumentsSchema(_ReportFields, requests.ValidateArgumentsSchema):
    """The query string of the validate endpoint."""


_ACCOUNT = json.loads(Path(__file__).with_name("example_account.json").read_bytes())
_VALID = "Whether the payload may be staged."
_ERROR = {"detail": "This field is required.", "code": "required", "attr": "ledgers.0.ledger_code"}
_WARNING = {"detail": "This is not a field here.", "code": "unknown_field", "attr": "customers.0.phone"}


class ValidationReportSchema(AnswerSchema):
    """Everything that the validation of a payload without errors found."""

    valid = answers.Boolean(_VALID, True)
    errors = answers.List(requests.FindingSchema, "Empty: the payload has no errors.", [])
    warnings = answers.List(
        requests.FindingSchema, "The warnings, which do not prevent staging, each with its path.", [_WARNING]
    )
    account = answers.Nested(AccountImportSchema, "The data as it is stored.", _ACCOUNT)


class StagingReportSchema(ValidationReportSchema):
    """Everything that the validation of a staged payload found."""

    result = requests.StagedAccountSchema().fields["result"]


class _ReportedFaults(AnswerSchema):
    """The members that the full report of a faulty payload has in addition to the body of an error."""

    optional = frozenset({"valid", "warnings", "account"})

    errors = answers.List(requests.FindingSchema, "Every error, each with its path.", [_ERROR])
    valid = answers.Boolean(f"{_VALID} Only in a full report.", False)
    warnings = answers.List(
        requests.FindingSchema, "The warnings, each with its path. Only in a full report.", [_WARNING]
    )
    account = answers.Raw(
        "Null, because nothing is stored. Only in a full report.",
        None,
        allow_none=True,
        openapi={"enum": [None]},
    )


class ReportErrorBodySchema(_ReportedFaults, requests.ErrorBodySchema):
    """The body of a 400 of validate, with or without the full report."""


class AccountReportErrorBodySchema(_ReportedFaults, requests.AccountErrorBodySchema):
    """The body of a 400 of stage, with or without the full report."""

    optional = requests.AccountErrorBodySchema.optional | _ReportedFaults.optional
