"""What is asked most, answered without Flask: an account's validation, staging and status.

Flask's frame of a request (its contexts, routing and response) takes as long as the database, or longer. So
an ordinary request gets its answer here, from the parts that the view has. Everything else, such as another
form of the path, a query, or an error, goes on to Flask, with what the schema found in an account.
"""

import re
import time
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from migration_payloads.schemas.account import read_account
from migration_payloads.validation import ValidatedAccount
from migration_service.blueprints.account_imports import LOADED
from migration_service.blueprints.requests import lifecycle
from migration_service.blueprints.requests.application import INTERFACE
from migration_service.blueprints.requests.interface import identify_caller, scopes_of
from migration_service.blueprints.requests.places import REFUSED
from migration_service.blueprints.requests.resources import Resources
from migration_service.blueprints.requests.validation_report import WARNING_COUNT, brief_answer
from migration_service.blueprints.status import write_status
from migration_service.db.pieces import LIGHT
from migration_service.db.sql import autocommit
from migration_service.errors import AccountFailedValidationError, ShareUsedError
from migration_service.origin import SERVICE, current_origin, set_origin
from migration_service.services.access.callers import Caller
from migration_service.services.access.scopes import require_scope
from migration_service.services.imports import staging
from migration_service.services.setup.suppliers import KnownSupplier

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication

Environ: TypeAlias = dict[str, Any]
#: A name in a path about which there is nothing to say.
_NAME = r"([A-Za-z0-9][A-Za-z0-9_.-]{0,127})"


class _Answer(NamedTuple):
    body: bytes
    status: str = "200 OK"
    #: The number of warnings of an account that was sent.
    warnings: int | None = None


def _give_status(shared: Resources, caller: Caller, _: Environ, code: str, number: str) -> _Answer:
    return _Answer(write_status(shared, caller, code, number))


def _check(shared: Resources, caller: Caller, environ: Environ) -> tuple[KnownSupplier, ValidatedAccount]:
    environ[LOADED] = loaded = read_account(_read(environ))
    if loaded.errors:
        raise AccountFailedValidationError(errors=loaded.errors)
    return staging.validate_payload(shared.reference, caller, loaded)


def _validate(shared: Resources, caller: Caller, environ: Environ) -> _Answer:
    _, account = _check(shared, caller, environ)
    return _Answer(account.json, warnings=len(account.warnings))


def _stage(shared: Resources, caller: Caller, environ: Environ) -> _Answer:
    supplier, account = _check(shared, caller, environ)
    with autocommit(shared.Session) as connection:
        result = staging.stage_account(connection, supplier, account, shared.staged_quota)
    body, status = brief_answer(account, result)
    return _Answer(body, "201 CREATED" if status == 201 else "200 OK", len(account.warnings))


class _Operation(NamedTuple):
    method: str
    #: Flask's route and view.
    route: str
    view: str
    answer: Callable[..., _Answer]


#: By path, with or without the last slash.
_OPERATIONS = {
    re.compile(f"{INTERFACE}{path}/?"): _Operation(method, f"{INTERFACE}{route or path}/", view, answer)
    for method, path, route, view, answer in (
        (
            *("GET", f"account-transfer-status/{_NAME}/{_NAME}"),
            "account-transfer-status/<import_supplier_code>/<number:external_account_number>",
            *("status.get_account_status", _give_status),
        ),
        ("POST", "account-import-process/create-or-update", "", "account_imports.stage_account", _stage),
        ("POST", "validate-account", "", "account_imports.validate_account", _validate),
    )
}


def answer_directly(application: "WSGIApplication", shared: Resources) -> "WSGIApplication":
    """Return `application` behind what answers ordinary requests of these operations."""
    is_allowed = lifecycle.make_host_check(shared.settings)
    bound = min(LIGHT, shared.settings.max_body_bytes + 1)

    def answer(environ: Environ, start_response: "StartResponse") -> Iterable[bytes]:
        for path, operation in _OPERATIONS.items():
            found = path.fullmatch(environ["PATH_INFO"])
            if found and _is_ordinary(environ, operation, bound) and is_allowed(environ.get("HTTP_HOST")):
                try:
                    return give(environ, start_response, operation, *found.groups())
                except ShareUsedError:
                    environ[REFUSED] = True
                except Exception:
                    break  # Flask meets the same, and answers and logs it
                finally:
                    set_origin(SERVICE)
        return application(environ, start_response)

    def give(environ: Environ, start: "StartResponse", operation: _Operation, *names: str) -> list[bytes]:
        began_at, address = time.monotonic(), environ.get("REMOTE_ADDR")
        id_ = lifecycle.identify(environ.get("HTTP_X_REQUEST_ID"), address)
        caller = identify_caller(shared, environ.get("HTTP_AUTHORIZATION", ""), address)
        place = shared.places.enter(caller.organisation_id)
        try:
            require_scope(caller.scopes, scopes_of(operation.view))
            answered = operation.answer(shared, caller, environ, *names)
        finally:
            shared.places.leave(place)
        head = [("Content-Type", "application/json"), ("Content-Length", str(len(answered.body)))]
        if answered.warnings is not None:
            head.append((WARNING_COUNT, str(answered.warnings)))
        start(answered.status, [*head, *lifecycle.DATA_HEADERS, ("X-Request-ID", id_)])
        status = int(answered.status[:3])
        lifecycle.log_request(operation.method, operation.route, status, began_at, current_origin())
        return [answered.body]

    return answer


def _is_ordinary(environ: Environ, operation: _Operation, bound: int) -> bool:
    """Return whether a request has no query, and no body or plain JSON that is shorter than `bound`."""
    if environ["REQUEST_METHOD"] != operation.method or environ.get("QUERY_STRING"):
        return False
    length = environ.get("CONTENT_LENGTH", "")
    is_json = environ.get("CONTENT_TYPE") == "application/json" and "HTTP_CONTENT_ENCODING" not in environ
    return operation.method == "GET" or (is_json and length.isdecimal() and int(length[:9]) < bound)


def _read(environ: Environ) -> bytes:
    """Return the body, which Flask can read again."""
    body = environ["wsgi.input"].read(length := int(environ["CONTENT_LENGTH"]))
    environ["wsgi.input"] = BytesIO(body)
    if len(body) < length:
        raise EOFError
    return bytes(body)
