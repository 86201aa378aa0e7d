"""The interface: its blueprints, who sends a request (section 5), what the key may do and what it names."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

from flask import Request, g
from flask.globals import request_ctx
from flask_smorest import Blueprint
from sqlalchemy.orm import Session

from migration_payloads.schemas.base import AnswerSchema
from migration_payloads.schemas.identifiers import require_identifier
from migration_service import errors
from migration_service.blueprints.requests.application import INTERFACE, require_text_in_path
from migration_service.blueprints.requests.describing import View
from migration_service.blueprints.requests.places import enter_place
from migration_service.blueprints.requests.resources import Resources, resources
from migration_service.log import request_id
from migration_service.origin import ActorKind, Origin, set_origin
from migration_service.services.access.callers import Caller
from migration_service.services.access.scopes import Scope, require_scope
from migration_service.services.access.tokens import authenticate_token
from migration_service.services.setup import suppliers
from migration_service.services.setup.teams import get_operations_team_id

#: The scopes of each view, or of each blueprint if all of its views agree. A key needs one of them.
SCOPES: dict[str, tuple[Scope, ...]] = {
    "account_imports.validate_account": (Scope.VALIDATE,),
    "account_imports.stage_account": (Scope.STAGE,),
    "account_imports.process_account": (Scope.PROCESS,),
    "added_data": (Scope.ADDED_DATA,),
    "erasure": (Scope.ERASE,),
    "skipping": (Scope.PROCESS, Scope.BATCHES),
    "sessions": (Scope.SESSIONS,),
    "api_key": tuple(Scope),
    "attempts": (Scope.READ, Scope.PROCESS),
    "import_suppliers": (Scope.READ,),
    "status": (Scope.READ,),
    "events": (Scope.READ,),
    "readiness.check_readiness": (Scope.READ, Scope.BATCHES),
    "readiness.accept_warning": (Scope.BATCHES,),
    "reconciliation": (Scope.READ,),
    "reconciliation.accept_exception": (Scope.PROCESS, Scope.BATCHES, Scope.GO_LIVE),
    "reconciliation.acknowledge_open": (Scope.PROCESS, Scope.BATCHES),
    "batches.list_batches": (Scope.READ, Scope.BATCHES),
    "batches.get_batch": (Scope.READ, Scope.BATCHES),
    "batches.get_batch_results": (Scope.READ, Scope.BATCHES),
    "batches.get_failed_lines": (Scope.READ, Scope.BATCHES),
    "batches": (Scope.BATCHES,),
    "control_totals": (Scope.BATCHES,),
    "control_totals.get_control_totals": (Scope.READ, Scope.BATCHES),
    "old_figures": (Scope.READ, Scope.BATCHES),
    "old_figures.set_old_figures": (Scope.BATCHES,),
    "certificates": (Scope.READ, Scope.BATCHES),
    "certificates.start_certificate": (Scope.BATCHES,),
    "undo": (Scope.UNDO,),
    "replacements": (Scope.REPLACE,),
    "undo.list_undos": (Scope.READ, Scope.UNDO),
    "undo.get_undo": (Scope.READ, Scope.UNDO),
    "undo.get_undo_results": (Scope.READ, Scope.UNDO),
    "go_lives": (Scope.GO_LIVE,),
    "go_lives.list_go_lives": (Scope.READ, Scope.GO_LIVE),
    "go_lives.get_go_live": (Scope.READ, Scope.GO_LIVE),
    "comparison": (Scope.READ, Scope.BATCHES),
    "waves.list_plans": (Scope.READ, Scope.BATCHES),
    "waves.get_plan": (Scope.READ, Scope.BATCHES),
    "waves": (Scope.BATCHES,),
    "webhooks": (Scope.WEBHOOKS,),
    "reports": (Scope.READ,),
}

_NAMES = ("import_supplier_code", "external_account_number")
_SCHEMES = ("token", "bearer", "jwt")
_BLANKS = re.compile(r"[ \t]+")


class _Resource(Blueprint):  # type: ignore[misc]
    """A blueprint that describes a response with the example of its schema, unless another one is given."""

    def response(self, status_code: int, schema: Any = None, **described: Any) -> Callable[[View], View]:
        """Describe the response."""
        kind = schema if isinstance(schema, type) else type(schema)
        if issubclass(kind, AnswerSchema) and "example" not in described:
            described["example"] = [kind.example()] if getattr(schema, "many", False) else kind.example()
        decorator: Callable[[View], View] = super().response(status_code, schema, **described)
        return decorator


def make_blueprint(name: str, path: str, description: str) -> Blueprint:
    """Return the blueprint of the resource at `path`, below the path of the interface."""
    url_prefix = f"{INTERFACE}{path}".rstrip("/")
    blueprint = _Resource(name, __name__, url_prefix=url_prefix, description=description)
    blueprint.before_request(_admit)
    return blueprint


def _admit() -> None:
    """Let only requests with a valid access token and valid names in the path through.

    Raise NotAuthenticatedError and UnauthenticatedError (401), PermissionDeniedError (403) if the key may not
    be used for this, ShareUsedError (429), and RequestFailedValidationError. OPTIONS needs no token: Flask
    answers it with the methods of the path and calls no view.
    """
    asked = request_ctx.request
    if asked.method != "OPTIONS":
        _authenticate(asked)
    # After the token, so that clients without one get no other error.
    require_text_in_path()
    for name, text in (asked.view_args or {}).items():
        if name in _NAMES:
            require_identifier(text, name)


def _authenticate(asked: Request) -> None:
    shared = resources()
    try:
        caller = identify_caller(shared, asked.headers.get("Authorization", ""), asked.remote_addr)
        g.caller = caller
        enter_place(caller.organisation_id)
        require_scope(caller.scopes, scopes_of(asked.endpoint or ""))
    except errors.UnauthenticatedError as error:
        if not isinstance(error, errors.NotAuthenticatedError):  # no identity was claimed
            shared.refusals.note_refused_request(error)
        enter_place()
        raise


def scopes_of(endpoint: str) -> tuple[Scope, ...]:
    """Return the scopes of which a key needs one for a view. If there are none, a key needs all scopes."""
    return SCOPES.get(endpoint) or SCOPES.get(endpoint.rpartition(".")[0], ())


def identify_caller(shared: Resources, authorization: str, address: str | None) -> Caller:
    """Return the sender of a request with this Authorization header, who is its origin from now on."""
    caller = authenticate_token(shared.reference, shared.settings, read_token(authorization))
    set_origin(
        Origin(
            kind=ActorKind.API_KEY,
            actor=caller.prefix,
            api_key_id=caller.api_key_id,
            organisation_id=caller.organisation_id,
            import_supplier_ids=caller.import_supplier_ids,
            address=address,
            request_id=request_id.get(),
        )
    )
    return caller


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
        raise errors.NotAuthenticatedError
    if len(words) > 1:
        raise errors.UnauthenticatedError("The Authorization header must be: Token <token>.")
    return words[0]


def supplier_in_path(session: Session, code: str) -> suppliers.KnownSupplier:
    """Return the caller's import supplier. Raise ImportSupplierNotFoundError and PermissionDeniedError."""
    return suppliers.get_import_supplier(session, code, organisation_id=caller().organisation_id)


@contextmanager
def telling_unknown_names(data: Any) -> Iterator[None]:
    """Let a RequestFailedValidationError of this block list the names in `data` that do not exist, too."""
    try:
        yield
    except errors.RequestFailedValidationError as error:
        error.errors += [item for item in find_unknown_names(data) if item not in error.errors]
        raise


def find_unknown_names(data: Any) -> list[errors.ErrorItem]:
    """Return an error for each name in `data` that does not exist, for a request that has other errors."""
    if not isinstance(data, Mapping):
        return []
    with resources().Session.begin() as session:
        return [item for error in _find_unknown(session, data) for item in error.errors]


def supplier_in_body(session: Session, data: Mapping[str, Any]) -> suppliers.KnownSupplier:
    """Return the caller's import supplier with the name in `data`, in which a team may be named, too.

    Raise ImportSupplierNotFoundInBodyError, with the error of the team if that does not exist either, and
    PermissionDeniedError.
    """
    unknown = _find_unknown(session, data)
    if unknown and isinstance(unknown[0], errors.ImportSupplierNotFoundInBodyError):
        unknown[0].errors = [item for error in unknown for item in error.errors]
        raise unknown[0]
    return suppliers.get_import_supplier(
        session, data["import_supplier"], organisation_id=caller().organisation_id
    )


def _find_unknown(session: Session, data: Mapping[str, Any]) -> list[errors.InvalidError]:
    unknown: list[errors.InvalidError] = []
    for name in ("import_supplier", "import_supplier_code"):
        code = data.get(name)
        if isinstance(code, str) and not suppliers.find_import_supplier(
            session, code, organisation_id=caller().organisation_id
        ):
            error = errors.ImportSupplierNotFoundInBodyError(found=code)
            error.errors = [replace(item, attr=name) for item in error.errors]
            unknown.append(error)
    if isinstance(team := data.get("operations_team_name"), str):
        try:
            get_operations_team_id(session, caller().organisation_id, team)
        except errors.OperationsTeamNotFoundError as error:
            unknown.append(error)
    return unknown
