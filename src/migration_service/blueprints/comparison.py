"""The comparison of two batches: codes that came and went, accounts that newly fail or now pass."""

from typing import Any

from flask import Response, jsonify

from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_payloads.schemas.fields import Choice
from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import CSV
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream_lines
from migration_service.schemas import answers
from migration_service.services.reporting import comparison
from migration_service.states import AccountChange, CodeChange

_BEFORE, _AFTER = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11", "019aa5d2-11c8-7d40-9b02-5e1f7c3a9d42"
_COUNTS = {
    "newly_broken": (4, "Accounts that passed in the first batch and fail in the second one."),
    "mended": (632, "Accounts that failed in the first batch and pass in the second one."),
    "still_broken": (8, "Accounts that fail in both."),
    "added_broken": (0, "Accounts that only the second batch has, and that fail there."),
    "removed_broken": (0, "Accounts that only the first batch has, and that failed there."),
    "passed": (99_356, "Accounts that pass in both."),
    "added": (0, "Accounts that only the second batch has, and that pass there."),
    "removed": (0, "Accounts that only the first batch has, and that passed there."),
    "undecided": (
        0,
        "Accounts that have a line without an outcome, and have not failed, in one of the batches.",
    ),
    "unnumbered_before": (1, "Lines of the first batch without an account number."),
    "unnumbered_after": (0, "Lines of the second batch without an account number."),
}


class ChangedAccountsArgumentsSchema(Fields):
    """The query string of the accounts that changed."""

    change = Choice(AccountChange, "Only accounts with this change.", "NEWLY_BROKEN")


class ComparedCodeAnswerSchema(AnswerSchema):
    """A code, with the number of lines in each batch that have it."""

    severity = answers.String(
        "Whether it is an error or a warning code.", "error", words=["error", "warning"]
    )
    code = answers.String("The code.", "invalid_phone_number")
    before = answers.Integer("Lines of the first batch that have it.", 640)
    after = answers.Integer("Lines of the second batch that have it.", 12)
    change = answers.String("What changed.", "SHRANK", words=CodeChange)


ComparedAccountsAnswerSchema = AnswerSchema.from_dict(
    {name: answers.Integer(text, number) for name, (number, text) in _COUNTS.items()},
    name="ComparedAccountsAnswerSchema",
)


class ComparisonAnswerSchema(AnswerSchema):
    """The differences between two batches."""

    before = answers.UUID("The first batch.", _BEFORE)
    after = answers.UUID("The second batch.", _AFTER)
    codes = answers.List(
        ComparedCodeAnswerSchema,
        "Every code of the two batches: errors before warnings, most frequent first.",
    )
    accounts = answers.Nested(ComparedAccountsAnswerSchema, "The number of accounts with each change.")


class ComparedAccountAnswerSchema(AnswerSchema):
    """An account that fails in at least one of the batches."""

    external_account_number = answers.String("The number of the account.", "100000038")
    change = answers.String("What changed.", "NEWLY_BROKEN", words=AccountChange)
    before_line = answers.Integer(
        "Its line in the first batch, or the first one that failed, or null.", 38, allow_none=True
    )
    before_codes = answers.List(answers.String, "The codes of its errors in the first batch.", [])
    after_line = answers.Integer(
        "Its line in the second batch, or the first one that failed, or null.", 38, allow_none=True
    )
    after_codes = answers.List(answers.String, "The codes of its errors in the second batch.", ["required"])


blueprint = make_blueprint(
    "comparison",
    "batches/<batch_id>/comparison/<later_batch_id>",
    "Compare two batches, such as two rehearsals of a book.",
)

_ACCOUNT_CSV_EXAMPLE = (
    "external_account_number,change,before_line,before_codes,after_line,after_codes\r\n"
    "100000038,NEWLY_BROKEN,38,,38,required\r\n"
)


@blueprint.get("/", endpoint="compare_batches")
@blueprint.response(200, ComparisonAnswerSchema)
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError, errors.BatchesNotComparableError)
@while_client_waits
@database_searches()
def compare(batch_id: str, later_batch_id: str) -> Response:
    """Compare two batches of one import supplier

    Shows which codes came, went, grew and shrank, and how many accounts are newly broken, mended or still
    broken. The first batch in the path is the earlier one. Both have the same kind. Lines without an account
    number are only counted.
    """
    with resources().Session.begin() as session:
        before, after = comparison.get_batches_to_compare(
            session, batch_id, later_batch_id, organisation_id=caller().organisation_id
        )
        begin_answer()
        compared = comparison.compare_batches(session, before.id, after.id)
    return jsonify(ComparisonAnswerSchema().dump(compared))


@blueprint.get("/accounts/", endpoint="get_changed_accounts")
@query_arguments(ChangedAccountsArgumentsSchema())
@blueprint.response(200, ComparedAccountAnswerSchema, content_type="application/x-ndjson")
@blueprint.alt_response(200, schema=CSV, content_type="text/csv", example=_ACCOUNT_CSV_EXAMPLE)
@answers_errors(errors.BatchNotFoundError, errors.BatchStateError, errors.BatchesNotComparableError)
@database_searches()
def get_changed_accounts(arguments: dict[str, Any], batch_id: str, later_batch_id: str) -> Response:
    """List the accounts that fail in at least one of two batches, streamed

    NDJSON, or CSV with `Accept: text/csv`. Each account has its change, its lines and the codes of its
    errors. Accounts that fail in the second batch come first, in the order of its lines, followed by the
    others. If an account has several lines in a batch of added data, its line is the first one that failed.
    """
    with resources().Session.begin() as session:
        before, after = comparison.get_batches_to_compare(
            session, batch_id, later_batch_id, organisation_id=caller().organisation_id
        )
    changes = [AccountChange(arguments["change"])] if "change" in arguments else list(AccountChange)
    accounts = comparison.find_changed_accounts(resources().Session, before.id, after.id, changes)
    return stream_lines(lambda kind: comparison.stream_changed_accounts(accounts, kind))
