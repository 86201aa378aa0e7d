"""Data that is added to an existing account (sections 4.8 to 4.11)."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any

from flask import Response
from sqlalchemy.orm import Session

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.coded import example_of
from migration_service import errors
from migration_service.blueprints.description.examples import STAGED
from migration_service.blueprints.description.openapi import answers_errors
from migration_service.blueprints.requests.body import document_body, query_arguments, read_json
from migration_service.blueprints.requests.describing import View
from migration_service.blueprints.requests.description_headers import refer
from migration_service.blueprints.requests.idempotency import KEY_ERRORS, idempotent, keep_with_effect
from migration_service.blueprints.requests.interface import (
    caller,
    find_unknown_names,
    make_blueprint,
    telling_unknown_names,
)
from migration_service.blueprints.requests.places import step_aside
from migration_service.blueprints.requests.resources import resources
from migration_service.blueprints.requests.validation_report import answer_accepted
from migration_service.schemas import added_data
from migration_service.services.accounts.added_data import (
    Accepted,
    Check,
    PostedBody,
    check_form,
    load_posted,
)
from migration_service.services.accounts.notes import add_notes, check_notes
from migration_service.services.accounts.payment_instructions import (
    add_instruction,
    ask_vendor,
    check_instruction,
    prepare_instruction,
)
from migration_service.services.accounts.statements import add_historical_statements, check_statements
from migration_service.services.accounts.transactions import add_transactions

blueprint = make_blueprint(
    "added_data", "", "Add notes, transactions, statements and payment instructions to an imported account."
)


def _add(body: PostedBody, arguments: dict[str, Any], service: Callable[[Session], Accepted]) -> Response:
    """Call a service in a transaction and respond with its result. A dry run is rolled back.

    The response is made within the transaction, so that no error can follow the commit.
    """
    with resources().Session.begin() as session:
        answer = answer_accepted(service(session), arguments, 200 if body.dry_run else 201)
        if body.dry_run:
            session.rollback()
        else:
            keep_with_effect(session, answer)
    return answer


def _posted(
    schema: added_data.AddedDataSchema,
    example: Any,
    check: Check | None = None,
    arguments: added_data.AddedDataArgumentsSchema | None = None,
) -> Callable[[View], View]:
    """Pass the query string and the body to the view. Raise RequestFailedValidationError with all errors.

    `check` reports the errors of a body that has some. Without it, the view does.
    """

    def find_errors() -> Sequence[errors.ErrorItem]:
        try:
            body = load_posted(schema, read_json())
            return [*body.errors, *find_unknown_names(body.data)]
        except errors.InvalidError as error:
            return error.errors

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            body = load_posted(schema, read_json())
            if check and body.errors:
                with telling_unknown_names(body.data), resources().Session.begin() as session:
                    check_form(session, caller(), body, check)
            return view(*args, body, **kwargs)

        described = document_body(schema, example)(wrapper)
        given = arguments or added_data.AddedDataArgumentsSchema()
        return query_arguments(given, find_errors=find_errors)(described)

    return decorate


def _answers(schema: Any, report: type[Fields], example: Any) -> Callable[[View], View]:
    """Describe the responses of a request with and without `dry_run`."""
    either = {"anyOf": [schema, report]}
    counted = refer("X-Warning-Count")
    added = blueprint.response(201, either, example=example, headers=counted)
    dry_run = blueprint.alt_response(
        200,
        schema=either,
        example=example,
        description="The body that the request would have returned without `dry_run`. Nothing was added.",
        headers=counted,
    )
    return lambda view: added(dry_run(view))


_NOTES, _TRANSACTIONS, _STATEMENTS, _INSTRUCTION = (
    example_of(it) | STAGED
    for it in (
        added_data.NotesRequestSchema,
        added_data.TransactionsRequestSchema,
        added_data.StatementsRequestSchema,
        added_data.PaymentInstructionRequestSchema,
    )
)


@blueprint.post("/notes/create/")
@idempotent()
@_answers(
    added_data.NoteResultSchema(many=True),
    added_data.NotesReportSchema,
    [added_data.NoteResultSchema.example()],
)
@answers_errors(
    errors.ImportSupplierNotFoundError, errors.AccountNotFoundError, errors.AccountErasedError, *KEY_ERRORS
)
@_posted(added_data.NotesRequestSchema(), _NOTES, check_notes)
def create_notes(arguments: dict[str, Any], body: PostedBody) -> Response:
    """Add notes to an account

    A note is not added again if the account already has one with the same body and, if it is sent, the same
    created_at. Notes without a body are compared by their document paths. There is one result per note, in
    the order of the request.

    An existing note does not change. If the posted note has documents or a pin that the existing one lacks,
    its result has warnings.
    """
    return _add(body, arguments, lambda session: add_notes(session, caller(), body))


def _as_transaction_error(view: View) -> View:
    """Give every 400 the body of section 4.9."""

    @wraps(view)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return view(*args, **kwargs)
        except errors.InvalidError as error:
            raise _transaction_error(error) from error

    return wrapper


def _transaction_error(error: errors.InvalidError) -> errors.TransactionImportError:
    payload = None
    with suppress(errors.InvalidError):
        payload = read_json()
    return errors.TransactionImportError(error, _first_failing(payload, error))


def _first_failing(payload: Any, error: errors.InvalidError) -> Any:
    paths = [item.attr.split(".") for item in error.errors if item.attr]
    indexes = [int(path[1]) for path in paths if path[0] == "transactions" and len(path) > 1]
    return payload["transactions"][min(indexes)] if indexes else None


def _transaction_example(error: errors.InvalidError) -> errors.TransactionImportError:
    about_a_transaction = isinstance(
        error, errors.TransactionOutsideOpenPeriodError | errors.TransactionIdAlreadyUsedError
    )
    return errors.TransactionImportError(
        error, _TRANSACTIONS["transactions"][0] if about_a_transaction else None
    )


@blueprint.post("/transactions/create/")
@_as_transaction_error
@idempotent()
@_answers(
    added_data.TransactionResultsSchema,
    added_data.TransactionsReportSchema,
    added_data.TransactionResultsSchema.example(),
)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.AccountNotFoundInBodyError,
    errors.AccountErasedError,
    errors.TransactionOutsideOpenPeriodError,
    errors.TransactionIdAlreadyUsedError,
    *KEY_ERRORS,
    body=added_data.TransactionErrorBodySchema,
    as_answered=_transaction_example,
)
@_posted(
    added_data.TransactionsRequestSchema(),
    _TRANSACTIONS,
    arguments=added_data.TransactionArgumentsSchema(),
)
def create_transactions(arguments: dict[str, Any], body: PostedBody) -> Response:
    """Add financial transactions to an account: all of them, or none

    They change the ledger's balance. A transaction that was already added is skipped. One outside the open
    statement period gets the nearest date in the period, a note that explains this, and a note pinned to the
    account.

    A transaction_id that is on the account with another amount or type is always an error, so that a
    correction is never skipped as a repeat. With check_previously_added=false every known transaction_id is
    an error, so that no transaction is added twice. A 400 lists the errors of all transactions.
    """
    how = {name: arguments[name] for name in ("check_previously_added", "force_add_to_current_statement")}
    with telling_unknown_names(body.data):
        return _add(body, arguments, lambda session: add_transactions(session, caller(), body, **how))


@blueprint.post("/historical-statements/create/")
@idempotent()
@_answers(added_data.StatementsRequestSchema, added_data.StatementsReportSchema, _STATEMENTS)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.AccountNotFoundInBodyError,
    errors.AccountErasedError,
    errors.HistoricalStatementAlreadyExistsError,
    *KEY_ERRORS,
)
@_posted(added_data.StatementsRequestSchema(), _STATEMENTS, check_statements)
def create_historical_statements(arguments: dict[str, Any], body: PostedBody) -> Response:
    """Add statements from before the migration to an account

    Returns the validated data. The same statement again changes nothing. A different one with the same
    statement_id is an error, and then none is added.
    """
    return _add(body, arguments, lambda session: add_historical_statements(session, caller(), body))


@blueprint.post("/payment-instruction/create/")
@idempotent()
@_answers(
    added_data.PaymentInstructionResultSchema,
    added_data.PaymentInstructionReportSchema,
    added_data.PaymentInstructionResultSchema.example(),
)
@answers_errors(
    errors.ImportSupplierNotFoundInBodyError,
    errors.AccountNotFoundInBodyError,
    errors.AccountErasedError,
    errors.PaymentVendorNotFoundError,
    errors.PaymentInstructionRejectedError,
    errors.PaymentVendorUnreachableError,
    errors.PaymentVendorUnavailableError,
    *KEY_ERRORS,
)
@_posted(added_data.PaymentInstructionRequestSchema(), _INSTRUCTION, check_instruction)
def create_payment_instruction(arguments: dict[str, Any], body: PostedBody) -> Response:
    """Add a payment instruction to an account, once its vendor has confirmed it

    After a 400, do not retry unchanged. A 500 means that the vendor is temporarily unavailable: retry
    unchanged. An instruction that was added before gets the same response again.
    """
    with resources().Session.begin() as session:
        order = prepare_instruction(session, caller(), body)
    step_aside()
    details = None if order.exists else ask_vendor(order)
    return _add(body, arguments, lambda session: add_instruction(session, order, details))
