"""Errors as pages, which say what happened and what to do next."""

import logging
from http import HTTPStatus

from flask import Flask, Response, current_app, make_response, render_template, request
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_service import errors
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.remedies import remedy_of
from migration_service.blueprints.requests.errors import status_of
from migration_service.blueprints.requests.resources import resources

logger = logging.getLogger(__name__)


def show_errors(app: Flask) -> None:
    """Answer every error of the console with a page."""
    app.register_error_handler(errors.ServiceError, _service_error)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(DataError, _impossible_value)
    app.register_error_handler(OperationalError, _database_unavailable)
    app.register_error_handler(PoolTimeoutError, _database_unavailable)
    app.register_error_handler(Exception, _unexpected_error)


def error_page(status: int, detail: str, code: str | None = None, meaning: str = "") -> Response:
    """Return a page about what happened.

    `meaning` explains the error code in the reader's language. `detail` is in English.
    """
    # A script replaces a part of a page, and shows its own sentence about failures.
    template = "error_part.html" if request.args.get("part") else "error.html"
    title = _title(status)
    return make_response(
        render_template(template, title=title, detail=detail, code=code, meaning=meaning), status
    )


def _service_error(error: errors.ServiceError) -> Response:
    status = status_of(type(error))
    if isinstance(error, errors.PermissionDeniedError):
        resources().refusals.note_refused_request(error)
        # access.py says in the reader's language what is not allowed.
        return error_page(status, error.detail, error.code)
    return error_page(status, error.detail, error.code, remedy_of(error.code).meaning)


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    detail = _("There is nothing at this address.") if status == 404 else error.description or ""
    return error_page(status, detail)


def _impossible_value(_error: DataError) -> Response:
    """Respond to a request with a value that the database cannot hold, such as a null character."""
    return error_page(400, _("The address or the form has an impossible value."))


def _database_unavailable(error: Exception) -> Response:
    logger.error("The database did not answer: %s", type(error).__name__)
    return error_page(503, _("The database does not answer. Try again in a moment."))


def _unexpected_error(error: Exception) -> Response:
    if current_app.testing:
        raise error
    logger.exception("An unexpected error")
    return error_page(500, _("An unexpected error. Nothing was changed. The log says more."))


def _title(status: int) -> str:
    match status:
        case HTTPStatus.NOT_FOUND:
            return _("Not found")
        case HTTPStatus.FORBIDDEN:
            return _("Not allowed")
        case HTTPStatus.TOO_MANY_REQUESTS:
            return _("Too many requests")
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return _("Not available")
        case _ if status >= 500:
            return _("Something went wrong")
    return _("That did not work")
