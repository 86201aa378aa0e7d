"""Access control: who may open which page, for which organisations. Nothing else decides this.

Every view is in `VIEWS`. A view that is missing there is refused to everybody. An operator who is bound to
organisations sees only those: for them, another organisation's supplier or batch does not exist. Views of the
whole service need an operator who is not bound.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar
from uuid import UUID

from flask import Flask, abort, g, make_response, redirect, render_template, request, url_for
from flask import session as cookie
from flask_wtf.csrf import generate_csrf
from sqlalchemy import select
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response

from migration_service import errors
from migration_service.blueprints.console.languages import _
from migration_service.blueprints.console.views import VIEWS, Need
from migration_service.blueprints.requests.holding import disregard_effects
from migration_service.blueprints.requests.resources import resources
from migration_service.models import Batch, Certificate, ImportSupplier, Undo, WavePlan
from migration_service.origin import ActorKind, Origin, set_origin
from migration_service.services.access.operator_sessions import ActiveSession, find_operator_session
from migration_service.services.access.operators import AuthenticatedOperator
from migration_service.services.setup.organisations import list_organisations
from migration_service.services.setup.suppliers import (
    KnownSupplier,
    find_import_supplier,
    get_owned,
    list_import_suppliers,
)

_Item = TypeVar("_Item")
#: The name of an organisation, or None if all share the item.
_Owner = TypeVar("_Owner", str, str | None)
_Owned = TypeVar("_Owned", Batch, WavePlan, Undo, Certificate)


#: The name in the cookie of the token of the session.
_SESSION = "operator_session"


def guard_views(app: Flask) -> None:
    """Let operators open only the views that they may see."""
    app.before_request(_require_access)
    app.jinja_env.tests["allowed"] = lambda target: target.startswith("/") or may(target)
    app.context_processor(lambda: {"may": may, "operator": getattr(find_session(), "operator", None)})


def keep_session(token: str, active: ActiveSession) -> None:
    """Keep a session that was started in a new cookie."""
    cookie.clear()
    cookie[_SESSION] = token
    # With the answer to the login: that of a page that takes long has left before its form needs a token.
    g.pop("csrf_token", None)
    generate_csrf()
    g.active_session = active


def find_session() -> ActiveSession | None:
    """Return the session of this browser, or None. It is read once for each request."""
    if "active_session" not in g:
        # If the database does not answer, the error page must not query it again.
        g.active_session = None
        if token := cookie.get(_SESSION):
            shared = resources()
            # Automatic requests of a page do not keep a session alive.
            is_used = not request.args.get("part")
            with shared.Session.begin() as session:
                g.active_session = find_operator_session(session, token, shared.settings, is_used=is_used)
            disregard_effects()
    active: ActiveSession | None = g.active_session
    return active


def _require_access() -> Response | None:
    if request.endpoint == "static":
        return None
    need = VIEWS.get(request.endpoint or "")
    if need is None:
        abort(404)
    active = find_session()
    if active:
        set_origin(_origin(active.operator))
    if need.role is None:
        return None
    if not active:
        return _ask_to_log_in()
    if not _satisfies(active.operator, need):
        raise errors.PermissionDeniedError(_refusal(need))
    return None


def _ask_to_log_in() -> Response:
    if request.args.get("part"):
        return make_response(render_template("logged_out_part.html"), 401)
    here = request.script_root + request.full_path.rstrip("?") if request.method == "GET" else None
    return redirect(url_for("login.show", next=here))


def current_operator() -> AuthenticatedOperator:
    """Return the operator who is logged in."""
    return current_session().operator


def current_session() -> ActiveSession:
    """Return the session of the operator who is logged in. Raise UnauthenticatedError if nobody is."""
    active = find_session()
    if active is None:
        raise errors.UnauthenticatedError
    return active


def may(endpoint: str) -> bool:
    """Return whether the operator who is logged in may open a view. Links to other views are not shown."""
    return _satisfies(current_operator(), VIEWS[endpoint])


def _satisfies(operator: AuthenticatedOperator, need: Need) -> bool:
    bound = need.whole_service and operator.organisation_ids is not None
    return need.role is not None and operator.role.includes(need.role) and not bound


def _refusal(need: Need) -> str:
    if need.whole_service:
        return _(
            "This concerns the whole service. It needs the role %(role)s and no binding to an organisation.",
            role=need.role,
        )
    return _("This needs the role %(role)s.", role=need.role)


def _origin(operator: AuthenticatedOperator) -> Origin:
    ids = operator.organisation_ids
    return Origin(
        kind=ActorKind.OPERATOR,
        actor=operator.name,
        organisation_id=next(iter(ids)) if ids is not None and len(ids) == 1 else None,
        import_supplier_ids=None if ids is None else _supplier_ids(ids),
        address=request.remote_addr,
        request_id=g.request_id,
    )


def _supplier_ids(organisation_ids: Iterable[int]) -> frozenset[int]:
    with resources().Session.begin() as session:
        owned = select(ImportSupplier.id).where(ImportSupplier.organisation_id.in_(organisation_ids))
        return frozenset(session.scalars(owned))


def sees(organisation_id: int | None) -> bool:
    """Return whether the operator may see data of this organisation. None stands for all organisations."""
    ids = current_operator().organisation_ids
    return ids is None or organisation_id is None or organisation_id in ids


def may_change(organisation_id: int | None) -> bool:
    """Return whether the operator may change what this organisation owns, or all share if it is None."""
    ids = current_operator().organisation_ids
    return ids is None or organisation_id in ids


def visible(rows: Sequence[tuple[_Item, _Owner]]) -> list[tuple[_Item, _Owner]]:
    """Return the rows of a command's list whose first item the operator may see."""
    return [row for row in rows if sees(getattr(row[0], "organisation_id"))]  # noqa: B009


def visible_codes(session: Session) -> list[str]:
    """Return the codes of the import suppliers that the operator may see, for filters by one."""
    return [it.code for it, _owner in visible(list_import_suppliers(session))]


def visible_organisations() -> list[str]:
    """Return the names of the organisations that the operator may see, for forms with a choice of one."""
    with resources().Session.begin() as session:
        return [it.name for it in list_organisations(session) if sees(it.id)]


def supplier_of(session: Session, code: str) -> KnownSupplier:
    """Return the import supplier of this code.

    Raise ImportSupplierNotFoundError if the operator may not see it.
    """
    try:
        supplier = find_import_supplier(session, code, organisation_id=None)
    except errors.PermissionDeniedError:
        supplier = None
    if supplier is None or not sees(supplier.organisation_id):
        raise errors.ImportSupplierNotFoundError(found=code)
    return supplier


def visible_row(
    session: Session, model: type[_Owned], id_: UUID, error: type[errors.NotFoundError]
) -> _Owned:
    """Return the row with this id. Raise `error` if the operator may not see it."""
    found = get_owned(session, model, str(id_), error, None)
    if not sees(found.organisation_id):
        raise error(found=str(id_))
    return found


def batch_of(session: Session, batch_id: UUID) -> Batch:
    """Return the batch with this id. Raise BatchNotFoundError if the operator may not see it."""
    return visible_row(session, Batch, batch_id, errors.BatchNotFoundError)


def plan_of(session: Session, plan_id: UUID) -> WavePlan:
    """Return the wave plan with this id. Raise WavePlanNotFoundError if the operator may not see it."""
    return visible_row(session, WavePlan, plan_id, errors.WavePlanNotFoundError)
