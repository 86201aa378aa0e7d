"""Responses that count warnings: plain, or the full report (`?report=full`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Response

from migration_payloads.corrections.catalogue import add_suggestions
from migration_payloads.schemas.json import encode_json
from migration_payloads.validation import ValidatedAccount
from migration_service.errors import AccountFailedValidationError, ErrorItem
from migration_service.services.accounts.added_data import Accepted
from migration_service.states import Report, StagingResult

#: The header with the number of warnings.
WARNING_COUNT = "X-Warning-Count"


@contextmanager
def reporting(arguments: dict[str, Any], text: bytes) -> Iterator[None]:
    """Add suggestions to an account's errors, and the full report, if it was requested.

    `text` is the body. Suggestions are only in answers. What is stored has none.
    """
    try:
        yield
    except AccountFailedValidationError as error:
        error.in_full = _in_full(arguments)
        error.errors = add_suggestions(text, error.errors)
        if error.in_full:
            error.warnings = add_suggestions(text, error.warnings)
        raise


def answer_validated(account: ValidatedAccount, arguments: dict[str, Any], text: bytes) -> Response:
    """Return the response of the validate endpoint (section 4.1) to the body `text`."""
    body = _report(account, text) if _in_full(arguments) else account.json
    return _response(body, account.warnings, 200)


def answer_staged(
    account: ValidatedAccount, arguments: dict[str, Any], text: bytes, result: StagingResult
) -> Response:
    """Return the response of the stage endpoint (section 4.2): 201 for the first staging, 200 after that.

    `text` is the body.
    """
    body, status = brief_answer(account, result)
    if _in_full(arguments):
        body = b'%b,"result":"%b"}' % (_report(account, text)[:-1], result.encode())
    return _response(body, account.warnings, status)


def brief_answer(account: ValidatedAccount, result: StagingResult) -> tuple[bytes, int]:
    """Return the body and the status of the stage endpoint without a report."""
    names = {name: account.data[name] for name in ("import_supplier", "external_account_number")}
    return encode_json(names | {"result": result}), 201 if result is StagingResult.STAGED else 200


def answer_accepted(accepted: Accepted, arguments: dict[str, Any], status: int) -> Response:
    """Return the response of an endpoint for added data (sections 4.8 to 4.11)."""
    body = accepted.body
    if _in_full(arguments):
        warnings = [item.to_dict() for item in accepted.warnings]
        body = {"valid": True, "errors": [], "warnings": warnings, "result": body}
    # Not through marshmallow, so that numbers stay exact, and absent fields of a transaction stay absent.
    return _response(encode_json(body), accepted.warnings, status)


def _in_full(arguments: dict[str, Any]) -> bool:
    return arguments.get("report") == Report.FULL


def _report(account: ValidatedAccount, text: bytes) -> bytes:
    # The account is already JSON text, and is not parsed again.
    warnings = encode_json([item.to_dict() for item in add_suggestions(text, account.warnings)])
    return b'{"valid":true,"errors":[],"warnings":%b,"account":%b}' % (warnings, account.json)


def _response(body: bytes, warnings: list[ErrorItem], status: int) -> Response:
    headers = {WARNING_COUNT: str(len(warnings))}
    return Response(body, status, headers, mimetype="application/json")
