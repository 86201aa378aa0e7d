"""Login with OpenID Connect: the provider proves the identity, the list of operators has the permissions."""

from typing import Any

from authlib.common.errors import AuthlibBaseError
from flask import Blueprint, Flask, abort, current_app, flash, redirect, request, session, url_for
from joserfc.errors import JoseError
from werkzeug.wrappers import Response

from migration_service.blueprints.console.languages import _
from migration_service.blueprints.console.pages import login
from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.errors import UnauthenticatedError
from migration_service.services.access.operators import admit_operator

#: What the library raises for an answer that proves nothing: one that was not asked for, or a token that is
#: forged, expired, somebody else's, or none.
_NOT_PROVED = (AuthlibBaseError, JoseError, ValueError, KeyError, TypeError, AttributeError)
#: What every error of `requests` is, which the library loads if there is a provider.
_NO_ANSWER = OSError

blueprint = Blueprint("openid", __name__, url_prefix="/login/openid")

_NEXT = "openid_next"
#: The time limit for the provider's answers, in seconds.
TIMEOUT = 10


def configure_openid(app: Flask, settings: Settings) -> None:
    """Use the provider in the settings, if there is one. Its addresses are requested when needed."""
    if not settings.openid_issuer:
        return
    # Most services have no provider, and each web process would load the library with its dependencies.
    from authlib.integrations.flask_client import OAuth  # noqa: PLC0415

    oauth = OAuth(app)
    oauth.register(
        "provider",
        client_id=settings.openid_client_id,
        client_secret=settings.openid_client_secret,
        server_metadata_url=f"{settings.openid_issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT,
        },
    )
    app.extensions["console_openid"] = oauth


@blueprint.get("/")
def begin() -> Response:
    """Send the browser to the provider."""
    session[_NEXT] = request.args.get("next", "")
    try:
        response: Response = _provider().authorize_redirect(_return_address())
    except (AuthlibBaseError, _NO_ANSWER, ValueError, KeyError):
        return _refuse(_("The identity provider does not answer. Try again, or log in with a password."))
    return response


@blueprint.get("/return/")
def come_back() -> Response:
    """Log in the person whom the provider has authenticated."""
    target = login.safe_target(session.get(_NEXT))
    try:
        token = _provider().authorize_access_token()
    except _NO_ANSWER:
        return _refuse(_("The identity provider did not log you in."))
    except _NOT_PROVED:
        resources().refusals.note_refused_login(UnauthenticatedError(), None)
        return _refuse(_("The identity provider did not log you in."))
    try:
        name = _name_in(token.get("userinfo") or {})
        with resources().Session.begin() as database:
            operator = admit_operator(database, name)
        login.start_session(operator)
    except UnauthenticatedError as error:
        resources().refusals.note_refused_login(error, None)
        return _refuse(_("The identity provider knows you, but you are not an operator here."))
    return redirect(target, 303)


def _provider() -> Any:
    oauth = current_app.extensions.get("console_openid")
    if oauth is None:
        abort(404)
    return oauth.provider


def _name_in(claims: dict[str, Any]) -> str:
    """Return the operator's name in the claims of the provider. Raise UnauthenticatedError without one.

    An e-mail address that the provider has not verified could be anybody's.
    """
    claim = resources().settings.openid_claim
    name = claims.get(claim)
    if claim == "email" and claims.get("email_verified") is not True:
        name = None
    if not isinstance(name, str) or not name:
        raise UnauthenticatedError
    return name


def _return_address() -> str:
    address = resources().settings.console_url
    if address:
        return f"{address.rstrip('/')}/login/openid/return/"
    return url_for("openid.come_back", _external=True)


def _refuse(message: str) -> Response:
    flash(message, "failed")
    return redirect(url_for("login.show"), 303)
