"""Authentication by the token in the Authorization header (section 5), and the permissions of its key."""

import re
from typing import cast

from flask import g, request

from migration_service.blueprints.requests.places import enter_place
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import NotAuthenticatedError, UnauthenticatedError
from migration_service.log import request_id
from migration_service.origin import ActorKind, Origin, set_origin
from migration_service.services.access.callers import Caller
from migration_service.services.access.scopes import Scope, require_scope
from migration_service.services.access.tokens import authenticate_token

#: The scopes of each view, or of each blueprint if all of its views agree. A key needs one of them.
SCOPES: dict[str, tuple[Scope, ...]] = {
    "account_imports.validate_account": (Scope.VALIDATE,),
    "account_imports.stage_account": (Scope.STAGE,),
    "account_imports.process_account": (Scope.PROCESS,),
    "added_data": (Scope.ADDED_DATA,),
    "erasure": (Scope.ERASE,),
    "sessions": (Scope.SESSIONS,),
    "api_key": tuple(Scope),
    "attempts": (Scope.READ, Scope.PROCESS),
    "import_suppliers": (Scope.READ,),
    "status": (Scope.READ,),
    "events": (Scope.READ,),
    "reconciliation": (Scope.READ,),
    "reconciliation.acknowledge_open": (Scope.PROCESS, Scope.BATCHES),
    "batches.list_batches": (Scope.READ, Scope.BATCHES),
    "batches.get_batch": (Scope.READ, Scope.BATCHES),
    "batches.get_batch_results": (Scope.READ, Scope.BATCHES),
    "batches.get_failed_lines": (Scope.READ, Scope.BATCHES),
    "batches": (Scope.BATCHES,),
    "control_totals": (Scope.BATCHES,),
    "control_totals.get_control_totals": (Scope.READ, Scope.BATCHES),
    "undo": (Scope.UNDO,),
    "undo.list_undos": (Scope.READ, Scope.UNDO),
    "undo.get_undo": (Scope.READ, Scope.UNDO),
    "undo.get_undo_results": (Scope.READ, Scope.UNDO),
    "comparison": (Scope.READ, Scope.BATCHES),
    "waves.list_plans": (Scope.READ, Scope.BATCHES),
    "waves.get_plan": (Scope.READ, Scope.BATCHES),
    "waves": (Scope.BATCHES,),
    "webhooks": (Scope.WEBHOOKS,),
}

_SCHEMES = ("token", "bearer", "jwt")
_BLANKS = re.compile(r"[ \t]+")


def require_token() -> None:
    """Let only requests with a valid access token through. For `Blueprint.before_request`.

    Raise NotAuthenticatedError and UnauthenticatedError (401), PermissionDeniedError (403) if the key may not
    be used for this, and ShareUsedError (429). OPTIONS needs no token: Flask answers it with the methods of
    the path and calls no view.
    """
    if request.method == "OPTIONS":
        return
    shared = resources()
    try:
        token = read_token(request.headers.get("Authorization", ""))
        g.caller = authenticate_token(shared.reference, shared.settings, token)
        _act_as(g.caller)
        enter_place(g.caller.organisation_id)
        require_scope(g.caller.scopes, scopes_of(request.endpoint or ""))
    except UnauthenticatedError as error:
        if not isinstance(error, NotAuthenticatedError):  # no identity was claimed
            shared.refusals.note_refused_request(error)
        enter_place()
        raise


def scopes_of(endpoint: str) -> tuple[Scope, ...]:
    """Return the scopes of which a key needs one for a view. If there are none, a key needs all scopes."""
    return SCOPES.get(endpoint) or SCOPES.get(endpoint.rpartition(".")[0], ())


def _act_as(caller: Caller) -> None:
    set_origin(
        Origin(
            kind=ActorKind.API_KEY,
            actor=caller.prefix,
            api_key_id=caller.api_key_id,
            organisation_id=caller.organisation_id,
            import_supplier_ids=caller.import_supplier_ids,
            address=request.remote_addr,
            request_id=request_id.get(),
        )
    )


def caller() -> Caller:
    """Return the sender of the current request. Only for views with `require_token`."""
    return cast(Caller, g.caller)


def read_token(header: str) -> str:
    """Return the token in an Authorization header: bare, or after the word Token, Bearer or JWT.

    Raise NotAuthenticatedError if the header is empty, and UnauthenticatedError if it has any other form.
    """
    words = [word for word in _BLANKS.split(header) if word]
    if words and words[0].lower() in _SCHEMES:
        words = words[1:]
    if not words:
        raise NotAuthenticatedError
    if len(words) > 1:
        raise UnauthenticatedError("The Authorization header must be: Token <token>.")
    return words[0]
