"""What is asked most, answered without Flask: the status of an account.

Flask's frame of a request (its contexts, routing and response) takes longer than the answer. So an ordinary
request gets it here, from the parts that the view has. Everything else, such as another form of the path, or
an error, goes on to Flask as if nothing had been done.
"""

import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from migration_service.blueprints.requests.body import INTERFACE
from migration_service.blueprints.requests.interface import identify_caller, scopes_of
from migration_service.blueprints.requests.lifecycle import (
    DATA_HEADERS,
    identify,
    log_request,
    make_host_check,
)
from migration_service.blueprints.requests.places import REFUSED
from migration_service.blueprints.requests.resources import Resources
from migration_service.blueprints.status import write_status
from migration_service.errors import HostNotAllowedError, ShareUsedError
from migration_service.origin import SERVICE, current_origin, set_origin
from migration_service.services.access.scopes import require_scope

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: A name in a path about which there is nothing to say.
_NAME = r"([A-Za-z0-9][A-Za-z0-9_.-]{0,127})"
_PATH = re.compile(rf"{INTERFACE}account-transfer-status/{_NAME}/{_NAME}/?")
_ROUTE = f"{INTERFACE}account-transfer-status/<import_supplier_code>/<number:external_account_number>/"
_SCOPES = scopes_of("status.get_account_status")


def answer_directly(application: "WSGIApplication", shared: Resources) -> "WSGIApplication":
    """Return `application` behind what answers ordinary requests for the status of an account."""
    is_allowed = make_host_check(shared.settings)

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] == "GET" and not environ.get("QUERY_STRING"):
            found = _PATH.fullmatch(environ["PATH_INFO"])
            if found:
                try:
                    if not is_allowed(environ.get("HTTP_HOST")):
                        raise HostNotAllowedError
                    return _answer(environ, start_response, *found.groups())
                except ShareUsedError:
                    environ[REFUSED] = True
                except Exception:
                    # Flask meets the same, and answers and logs it.
                    return application(environ, start_response)
                finally:
                    set_origin(SERVICE)
        return application(environ, start_response)

    def _answer(
        environ: "WSGIEnvironment", start_response: "StartResponse", code: str, number: str
    ) -> list[bytes]:
        began_at, address = time.monotonic(), environ.get("REMOTE_ADDR")
        id_ = identify(environ.get("HTTP_X_REQUEST_ID"), address)
        caller = identify_caller(shared, environ.get("HTTP_AUTHORIZATION", ""), address)
        place = shared.places.enter(caller.organisation_id)
        try:
            require_scope(caller.scopes, _SCOPES)
            body = write_status(shared, caller, code, number)
        finally:
            shared.places.leave(place)
        head = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response("200 OK", [*head, *DATA_HEADERS, ("X-Request-ID", id_)])
        log_request("GET", _ROUTE, 200, began_at, current_origin())
        return [body]

    return answer
