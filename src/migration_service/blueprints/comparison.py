"""The comparison of two batches: codes that came and went, accounts that newly fail or now pass."""

from typing import Any

from flask import Response, jsonify

from migration_service import errors
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import CSV
from migration_service.blueprints.requests.interface import caller, make_blueprint
from migration_service.blueprints.requests.places import begin_answer, database_searches, while_client_waits
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.streaming import stream_lines
from migration_service.schemas.comparison import (
    ChangedAccountsArgumentsSchema,
    ComparedAccountAnswerSchema,
    ComparisonAnswerSchema,
)
from migration_service.services.reporting.comparison import (
    compare_batches,
    find_changed_accounts,
    get_batches_to_compare,
    stream_changed_accounts,
)
from migration_service.states import AccountChange

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
@blueprint.response(200, ComparisonAnswerSchema, example=ComparisonAnswerSchema.example())
@answers_errors(
    blueprint, errors.BatchNotFoundError, errors.BatchStateError, errors.BatchesNotComparableError
)
@while_client_waits
@database_searches()
def compare(batch_id: str, later_batch_id: str) -> Response:
    """Compare two batches of one import supplier

    Shows which codes came, went, grew and shrank, and how many accounts are newly broken, mended or still
    broken. The first batch in the path is the earlier one. Both have the same kind. Lines without an account
    number are only counted.
    """
    with resources().Session.begin() as session:
        before, after = get_batches_to_compare(
            session, batch_id, later_batch_id, organisation_id=caller().organisation_id
        )
        begin_answer()
        comparison = compare_batches(session, before.id, after.id)
    return jsonify(ComparisonAnswerSchema().dump(comparison))


@blueprint.get("/accounts/", endpoint="get_changed_accounts")
@query_arguments(blueprint, ChangedAccountsArgumentsSchema())
@blueprint.response(
    200,
    ComparedAccountAnswerSchema,
    content_type="application/x-ndjson",
    example=ComparedAccountAnswerSchema.example(),
)
@blueprint.alt_response(200, schema=CSV, content_type="text/csv", example=_ACCOUNT_CSV_EXAMPLE)
@answers_errors(
    blueprint, errors.BatchNotFoundError, errors.BatchStateError, errors.BatchesNotComparableError
)
@database_searches()
def get_changed_accounts(arguments: dict[str, Any], batch_id: str, later_batch_id: str) -> Response:
    """List the accounts that fail in at least one of two batches, streamed

    NDJSON, or CSV with `Accept: text/csv`. Each account has its change, its lines and the codes of its
    errors. Accounts that fail in the second batch come first, in the order of its lines, followed by the
    others. If an account has several lines in a batch of added data, its line is the first one that failed.
    """
    with resources().Session.begin() as session:
        before, after = get_batches_to_compare(
            session, batch_id, later_batch_id, organisation_id=caller().organisation_id
        )
    changes = [AccountChange(arguments["change"])] if "change" in arguments else list(AccountChange)
    accounts = find_changed_accounts(resources().Session, before.id, after.id, changes)
    return stream_lines(lambda kind: stream_changed_accounts(accounts, kind))
