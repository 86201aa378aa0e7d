"""Logging in and out, and the operator's own password."""

from flask import Blueprint, flash, make_response, redirect, render_template, request, session, url_for
from werkzeug.wrappers import Response
from wtforms import HiddenField, PasswordField, StringField
from wtforms.validators import EqualTo, InputRequired, Length

from migration_service.blueprints.console import access
from migration_service.blueprints.console.faults import FormWithFaults
from migration_service.blueprints.console.languages import _, _l
from migration_service.blueprints.console.views import MOUNT
from migration_service.blueprints.requests.resources import resources
from migration_service.errors import PasswordInvalidError, ThrottledError, UnauthenticatedError
from migration_service.services.access import operator_sessions, operators, throttle

blueprint = Blueprint("login", __name__)


class LoginForm(FormWithFaults):
    """A name and a password, and the page that was requested before the login."""

    name = StringField(validators=[InputRequired(), Length(max=128)])
    password = PasswordField(validators=[InputRequired(), Length(max=256)])
    next = HiddenField()


class PasswordForm(FormWithFaults):
    """The old password, and the new one twice."""

    old = PasswordField(
        _l("Old password"),
        validators=[InputRequired(), Length(max=256)],
        render_kw={"autocomplete": "current-password"},
    )
    new = PasswordField(
        _l("New password"),
        validators=[InputRequired(), Length(max=256)],
        description=_l("12 to 256 characters."),
        render_kw={"autocomplete": "new-password"},
    )
    again = PasswordField(
        _l("The same again"),
        validators=[InputRequired(), EqualTo("new", _l("The two passwords differ."))],
        render_kw={"autocomplete": "new-password"},
    )


@blueprint.get("/login/")
def show() -> Response:
    """Show the login page."""
    if access.find_session():
        return redirect(url_for("overview.show"))
    return _page(LoginForm(next=request.args.get("next", "")))


@blueprint.post("/login/")
def enter() -> Response:
    """Log in with a name and a password."""
    form = LoginForm()
    if not form.validate():
        return _page(form, _("Enter your name and your password."), 400)
    try:
        start_session(_authenticate(str(form.name.data), str(form.password.data)))
    except ThrottledError as error:
        return _page(form, _too_many(error), 429)
    except UnauthenticatedError:
        return _page(form, _("The name or the password is not right."), 401)
    return redirect(safe_target(form.next.data), 303)


def _too_many(error: ThrottledError) -> str:
    return _("Too many attempts have failed. Try again in %(n)s seconds.", n=error.retry_after)


def _authenticate(name: str, password: str) -> operators.AuthenticatedOperator:
    """Return the operator with this password. Attempts are counted before the password is checked."""
    shared, here = resources(), throttle.client_of(request.remote_addr)
    counters = {
        throttle.client_of_login(request.remote_addr, name): throttle.MOST_FAILURES,
        f"login {here}": throttle.MOST_FAILED_LOGINS,
    }
    try:
        for counter, most in counters.items():
            shared.throttle.count_failure(counter, most)
        operator = operators.authenticate_operator(shared.Session, name, password)
    except (UnauthenticatedError, ThrottledError) as error:
        shared.refusals.note_refused_login(error, None)
        raise
    for counter in counters:
        shared.throttle.forgive(counter)
    return operator


def start_session(operator: operators.AuthenticatedOperator) -> None:
    """Start a session of an authenticated operator, with a new cookie."""
    with resources().Session.begin() as database:
        token, active = operator_sessions.begin_operator_session(database, operator)
    access.keep_session(token, active)


@blueprint.post("/logout/")
def leave() -> Response:
    """End the session in the browser and on the server."""
    with resources().Session.begin() as database:
        operator_sessions.log_out_operator(database, access.current_session())
    session.clear()
    flash(_("You have logged out."), "done")
    return redirect(url_for("login.show"), 303)


@blueprint.route("/password/", methods=["GET", "POST"])
def change_password() -> Response:
    """Change one's own password. It ends every session, so that one has to log in with the new one."""
    form = PasswordForm()
    if request.method == "GET":
        return _password_page(form)
    if not form.validate():
        return _password_page(form, 400)
    name = access.current_operator().name
    try:
        _authenticate(name, str(form.old.data))
        with resources().Session.begin() as database:
            operators.set_operator_password(database, name, str(form.new.data))
    except ThrottledError as error:
        form.old.errors = [_too_many(error)]
        return _password_page(form, 429)
    except UnauthenticatedError:
        form.old.errors = [_("The old password is not right.")]
        return _password_page(form, 401)
    except PasswordInvalidError as error:
        form.take(error)
        return _password_page(form, 400)
    session.clear()
    flash(_("Your password has been changed. Log in with it."), "done")
    return redirect(url_for("login.show"), 303)


def safe_target(target: str | None) -> str:
    """Return the requested page of the console, or the overview for any other address."""
    if target and target.startswith(f"{MOUNT}/") and "\\" not in target and target.isprintable():
        return target
    return url_for("overview.show")


def _page(form: LoginForm, error: str | None = None, status: int = 200) -> Response:
    return make_response(render_template("login.html", form=form, error=error), status)


def _password_page(form: PasswordForm, status: int = 200) -> Response:
    return make_response(render_template("password.html", form=form, faults=form.list_faults()), status)
