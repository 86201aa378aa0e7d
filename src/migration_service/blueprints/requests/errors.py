"""Error handlers, which respond with the body of section 7.2."""

import logging
import random
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, jsonify, request
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException

from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.blueprints.requests.error_bodies import (
    HTTP_CODES,
    RETRY_LATER_CODES,
    error_body,
    status_of,
)
from migration_service.blueprints.requests.resources import resources

logger = logging.getLogger(__name__)

_RETRY_LATER = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


def register_error_handlers(app: Flask) -> None:
    """Answer every error of `app` with the body of section 7.2."""
    app.register_error_handler(errors.ServiceError, _service_error)
    app.register_error_handler(errors.PermissionDeniedError, _permission_denied)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(OperationalError, _database_unavailable)
    app.register_error_handler(PoolTimeoutError, _database_unavailable)
    app.register_error_handler(Exception, _unexpected_error)


def _service_error(error: errors.ServiceError) -> Response:
    status = status_of(type(error))
    # Not Flask's encoder, so that the numbers in a returned transaction stay numbers.
    response = Response(encode_json(error_body(error)), status, mimetype="application/json")
    if status == HTTPStatus.UNAUTHORIZED:
        response.headers["WWW-Authenticate"] = "Token"
    if status in _RETRY_LATER or error.code in RETRY_LATER_CODES:
        # Random, so that clients that are refused together do not retry together.
        response.headers["Retry-After"] = str(random.randint(*error.retry_seconds))  # noqa: S311
    return response


def _permission_denied(error: errors.PermissionDeniedError) -> Response:
    resources().refusals.note_refused_request(error)
    return _service_error(error)


_NO_SUCH_PATH = (
    "There is nothing at this path. /v1/openapi.json describes every path, and /v1/docs/ shows it as a page."
)


def _http_error(error: HTTPException) -> Response:
    status = error.code or 500
    code = HTTP_CODES.get(status, "error")
    allowed = error.get_response().headers.get("Allow")
    detail = _NO_SUCH_PATH if status == HTTPStatus.NOT_FOUND else error.description
    if allowed:
        detail = (
            f"This path does not take {request.method}. It takes {' and '.join(sorted(allowed.split(', ')))}."
        )
    answer = jsonify(_plain_body(detail or HTTPStatus(status).phrase, code))
    answer.status_code = status
    if allowed:
        answer.headers["Allow"] = allowed
    return answer


def _database_unavailable(error: Exception) -> Response:
    logger.error("The database did not answer: %s", type(error).__name__)
    return _service_error(errors.ServiceUnavailableError())


def _unexpected_error(_error: Exception) -> Response:
    logger.exception("An unexpected error")
    answer = jsonify(_plain_body("An unexpected error. Nothing was changed.", "error"))
    answer.status_code = HTTPStatus.INTERNAL_SERVER_ERROR
    return answer


def _plain_body(detail: str, code: str) -> dict[str, Any]:
    return {"detail": detail, "code": code, "errors": [{"detail": detail, "code": code, "attr": None}]}
