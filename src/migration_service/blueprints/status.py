"""The progress of imports: the status of an account and the three lists (sections 4.4 to 4.7)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from flask import Response

from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.base import AnswerSchema
from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.blueprints.description.examples import ACCOUNT
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import query_arguments
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.interface import caller, make_blueprint, supplier_in_path
from migration_service.blueprints.requests.paging import link_next
from migration_service.blueprints.requests.resources import Resources, resources
from migration_service.blueprints.requests.streaming import stream_array
from migration_service.db.sql import autocommit
from migration_service.schemas import answers, requests
from migration_service.schemas.paging import write_number_cursor
from migration_service.services.access.callers import Caller
from migration_service.services.accounts.ownership import read_imports_of_owner
from migration_service.services.imports.status import ImportsPage, ListKind, get_status, read_imports
from migration_service.services.reporting.account_history import read_account_history
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import Outcome, Owner

_MOMENT = "2026-03-01T22:00:00Z"
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_ERROR = {
    "detail": "This is not a valid telephone number of its country.",
    "code": "invalid_phone_number",
    "attr": "customers.0.mobile",
}
_NOTE = {"body": "Prefers to be called after six.", "added_at": _MOMENT}


def _items(meaning: str, *example: Any) -> answers.List:
    """Return a list of the items sent to an endpoint for added data, each with `added_at`."""
    added_at = {
        "type": ["string", "null"],
        "format": "date-time",
        "description": "When it was added, in UTC. Null if that was not recorded at the time.",
    }
    item = {"type": "object", "properties": {"added_at": added_at}, "additionalProperties": True}
    return answers.List(answers.Dict(openapi=item), meaning, [*example])


class StagedVersionSchema(AnswerSchema):
    """The staged payload, or the one that the account was created from."""

    staged_at = answers.Moment("When it was staged, in UTC.", _MOMENT)
    extracted_at = answers.Moment(
        "When the supplier extracted it, in UTC, if this was sent.", _MOMENT, allow_none=True
    )
    profile = answers.String("The profile under which it was valid.", "lenient")
    warnings = answers.List(requests.ErrorObjectSchema, "The warnings of staging, each with its path.", [])
    payload = answers.Nested(
        AccountImportSchema, "The data. Null once it is no longer kept.", None, allow_none=True
    )


class NewerVersionSchema(AnswerSchema):
    """A newer version that was refused."""

    refused_at = answers.Moment("When, in UTC.", _MOMENT)
    batch_id = answers.UUID(
        "The batch that it was in. Null for a single request.", _BATCH_ID, allow_none=True
    )
    line_number = answers.Integer("Its line in that batch.", 17, allow_none=True)
    errors = answers.List(
        requests.ErrorObjectSchema, "Why it was refused, for as long as this is kept.", [_ERROR]
    )


class CreatedVersionSchema(AnswerSchema):
    """The account that was created."""

    service_account_number = answers.String("Its number.", "A-7KX2M9QD")
    operations_team_name = answers.String("The operations team that it is linked to.", "Migration team")
    account_created_at = answers.Moment("When it was created, in UTC.", _MOMENT)
    erased_at = answers.Moment("When its personal data was erased, in UTC.", None, allow_none=True)
    owner = answers.String("Who is responsible for it: `new` once it has gone live.", "old", words=Owner)
    live_at = answers.Moment("When it goes or went live, in UTC.", None, allow_none=True)
    live_by = answers.String("Who decided that.", None, allow_none=True)


class AddedSinceSchema(AnswerSchema):
    """Data added to the account since then, in the order in which it was added."""

    notes = _items("Notes.", _NOTE)
    transactions = _items("Transactions, each with its ledger_code.")
    statements = _items("Historical statements.")
    payment_instructions = _items("Payment instructions.")


class AccountHistorySchema(AnswerSchema):
    """An account's staged payload, what was created, and what was added since."""

    import_supplier = requests.StagedAccountSchema().fields["import_supplier"]
    external_account_number = answers.String("The account's number.", "100000038")
    status = requests.AccountStatusSchema().fields["status"]
    is_skipped = answers.Boolean("Whether an operator excluded it.", False)
    staged = answers.Nested(
        StagedVersionSchema,
        "The payload that is staged, or was staged when the account was created. Null "
        "once it has been erased.",
        None,
        allow_none=True,
    )
    newer_version = answers.Nested(
        NewerVersionSchema, "A newer version that was refused, or null.", None, allow_none=True
    )
    created = answers.Nested(
        CreatedVersionSchema, "The account. Null until it exists.", None, allow_none=True
    )
    added = answers.Nested(
        AddedSinceSchema,
        "Data added since then. Null until the account exists, and once it has been erased.",
        None,
        allow_none=True,
    )


class FailedImportSchema(AnswerSchema):
    """An account that is not created and whose last attempt failed."""

    external_account_number = answers.String("The account's number in the supplier's system.", "100000038")
    attempt_id = answers.UUID("The account's last attempt.", _BATCH_ID)
    dry_run = answers.Boolean("Whether it was a dry run.", False)
    outcome = answers.String(
        "FAILED, or WITHDRAWN if no worker started it in time.",
        "FAILED",
        words=[Outcome.FAILED.value, Outcome.WITHDRAWN.value],
    )
    code = answers.String("The code of the error.", "account_failed_validation")
    finished_at = answers.Moment("When it ended, in UTC.", "2026-03-01T10:15:01Z")


#: The number of entries in one piece of a streamed list.
PIECE = 5_000

blueprint = make_blueprint(
    "status", "", "The progress of the migration of an account and of a supplier's book."
)

_CREATED_EXAMPLE = requests.ListedImportSchema.example(
    external_account_number="10000001", account_created_at="2026-03-01T10:15:00Z"
)
_STAGED_EXAMPLE = {
    "external_account_number": "10000002",
    "service_account_number": None,
    "account_created_at": None,
}
_ACCOUNT_EXAMPLE = AccountHistorySchema.example(
    external_account_number="10000001",
    staged=StagedVersionSchema.example(
        staged_at="2026-03-01T10:14:00Z", extracted_at="2026-02-28T22:00:00Z", payload=ACCOUNT
    ),
    created=CreatedVersionSchema.example(account_created_at="2026-03-01T10:15:00Z"),
    added=AddedSinceSchema.example(notes=[_NOTE | {"added_at": "2026-03-02T09:00:00Z"}]),
)

_FAILED_EXAMPLE = [
    FailedImportSchema.example(external_account_number="10000002", finished_at="2026-03-01T10:15:00Z")
]


@blueprint.get("/account-transfer-status/<import_supplier_code>/<number:external_account_number>/")
@blueprint.response(
    200, requests.AccountStatusSchema, example={"status": "COMPLETED", "service_account_number": "A-7KX2M9QD"}
)
@answers_errors(errors.ImportSupplierNotFoundError, errors.AccountNotFoundError)
def get_account_status(import_supplier_code: str, external_account_number: str) -> Response:
    """Get the import status of an account

    `IN_PROGRESS` while a migration process creates the account, `COMPLETED` once it exists, and `UNKNOWN`
    otherwise, even if the account is staged.
    """
    body = write_status(resources(), caller(), import_supplier_code, external_account_number)
    return Response(body, mimetype="application/json")


def write_status(shared: Resources, caller: Caller, code: str, number: str) -> bytes:
    """Return the body of the answer about an account."""
    with autocommit(shared.Session) as connection:
        status, service_account_number = get_status(connection, caller.organisation_id, code, number)
    return encode_json({"status": status, "service_account_number": service_account_number})


@blueprint.get("/accounts/<import_supplier_code>/<number:external_account_number>/", endpoint="get_account")
@blueprint.response(200, AccountHistorySchema, example=_ACCOUNT_EXAMPLE)
@answers_errors(errors.ImportSupplierNotFoundError, errors.AccountNotFoundError)
def get_account(import_supplier_code: str, external_account_number: str) -> Response:
    """Get everything that the service holds about an account

    Includes the staged payload, a newer version that was refused, what was created, and what was added since.
    For an account whose personal data was erased, only the numbers are left.
    """
    with resources().Session.begin() as session:
        supplier = supplier_in_path(session, import_supplier_code)
        history = read_account_history(session, supplier, external_account_number)
    return Response(encode_json(history), mimetype="application/json")


@blueprint.get("/all-account-import-processes/<import_supplier_code>/")
@blueprint.response(
    200,
    requests.ListedImportSchema(many=True),
    example=[_CREATED_EXAMPLE, _STAGED_EXAMPLE],
    headers=refer("Link"),
)
@answers_errors(errors.ImportSupplierNotFoundError)
@query_arguments(requests.ListArgumentsSchema())
def list_all_account_imports(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """List every account import of a supplier

    The whole array, streamed. With `limit`: one page of it, and a Link header (rel="next") to the next page.
    """
    return _list(ListKind.ALL, import_supplier_code, arguments)


@blueprint.get("/pending-account-import-processes/<import_supplier_code>/")
@blueprint.response(
    200, requests.ListedImportSchema(many=True), example=[_STAGED_EXAMPLE], headers=refer("Link")
)
@answers_errors(errors.ImportSupplierNotFoundError)
@query_arguments(requests.ListArgumentsSchema())
def list_pending_account_imports(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """List the account imports that are staged and not created

    The whole array, streamed. With `limit`: one page of it, and a Link header (rel="next") to the next page.
    """
    return _list(ListKind.PENDING, import_supplier_code, arguments)


@blueprint.get("/imported-account-import-processes/<import_supplier_code>/")
@blueprint.response(
    200, requests.ListedImportSchema(many=True), example=[_CREATED_EXAMPLE], headers=refer("Link")
)
@answers_errors(errors.ImportSupplierNotFoundError)
@query_arguments(requests.OwnerListArgumentsSchema())
def list_imported_account_imports(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """List the account imports whose account has been created

    With `owner`: only accounts that the old system, or the platform, owns. The whole array, streamed. With
    `limit`: one page of it, and a Link header (rel="next") to the next page.
    """
    return _list(ListKind.IMPORTED, import_supplier_code, arguments)


@blueprint.get("/failed-account-import-processes/<import_supplier_code>/")
@blueprint.response(200, FailedImportSchema(many=True), example=_FAILED_EXAMPLE, headers=refer("Link"))
@answers_errors(errors.ImportSupplierNotFoundError)
@query_arguments(requests.ListArgumentsSchema())
def list_failed_account_imports(arguments: dict[str, Any], import_supplier_code: str) -> Response:
    """List the accounts that are not created and whose last attempt failed

    Dry runs count too. An account that was refused before it was staged has no attempt: the reconciliation
    lists it under `open`. The whole array, streamed. With `limit`: one page of it, and a Link header
    (rel="next") to the next page.
    """
    return _list(ListKind.FAILED, import_supplier_code, arguments)


def _list(kind: ListKind, import_supplier_code: str, arguments: dict[str, Any]) -> Response:
    """Return a page of a list, or all of it in pieces, with no connection while the client reads one."""
    shared, limit = resources(), arguments.get("limit")
    supplier = get_import_supplier(
        shared.reference, import_supplier_code, organisation_id=caller().organisation_id
    )
    read_page: Callable[..., ImportsPage] = partial(read_imports, kind=kind)
    if "owner" in arguments:
        read_page = partial(read_imports_of_owner, owner=Owner(arguments["owner"]))

    def read(after: str) -> ImportsPage:
        with autocommit(shared.Session) as connection:
            return read_page(connection, supplier, after=after, limit=limit or PIECE)

    first = read(arguments.get("cursor", ""))

    def pieces() -> Iterator[str]:
        page = first
        while True:
            if page.json:
                yield page.json
            if page.cursor is None:
                return
            page = read(page.cursor)

    if limit is None:
        return stream_array(pieces())
    response = Response(f"[{first.json}]", mimetype="application/json")
    if first.cursor is not None:
        link_next(response, limit, write_number_cursor(first.cursor))
    return response
