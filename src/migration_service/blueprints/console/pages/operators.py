"""Operators: the people who log in here, with their roles and passwords."""

from typing import Any

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import PasswordField, SelectField, SelectMultipleField, StringField
from wtforms.validators import EqualTo, InputRequired, Length

from migration_service.blueprints.console.access import current_operator, visible_organisations
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.console.languages import ngettext
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.services.access.operator_sessions import list_operator_sessions
from migration_service.services.access.operators import (
    OperatorRole,
    create_operator,
    disable_operator,
    list_operators,
    set_operator_password,
    set_operator_role,
)

blueprint = Blueprint("operators", __name__, url_prefix="/setup/operators")

_ROLES = [role.value for role in OperatorRole]
_ROLES_MEAN = _l(
    "read sees every page, with personal data masked. operate also runs batches and waves, and sees personal "
    "data. administer also sets go-live, and creates suppliers, teams and keys."
)


class OperatorForm(ActionForm):
    """The name, role and organisations of a new operator."""

    name = StringField(
        _l("Name"),
        validators=[InputRequired(), Length(max=128)],
        description=_l("With OpenID Connect: the value of the provider's claim, usually the e-mail address."),
    )
    role = SelectField(_l("Role"), choices=_ROLES, description=_ROLES_MEAN)
    organisations = SelectMultipleField(
        _l("Organisations"),
        description=_l("The organisations that the operator is bound to. None chosen: all."),
    )


class RoleForm(ActionForm):
    """The new role of an operator."""

    role = SelectField(_l("Role"), choices=_ROLES, description=_ROLES_MEAN)


class NewPasswordForm(ActionForm):
    """A new password, twice."""

    password = PasswordField(
        _l("Password"),
        validators=[InputRequired()],
        description=_l("12 to 256 characters."),
        render_kw={"autocomplete": "new-password"},
    )
    again = PasswordField(
        _l("The same again"),
        validators=[EqualTo("password", _l("The two passwords differ."))],
        render_kw={"autocomplete": "new-password"},
    )


@list_at(blueprint, "/")
def show() -> Response:
    """List operators, each with the organisations that they are bound to."""

    def more(_session: Session, found: list[Any]) -> dict[str, Any]:
        enabled = [it for it, _bound in found if it.disabled_at is None]
        roles = {role.value: sum(it.role == role for it in enabled) for role in OperatorRole}
        return {"enabled": len(enabled), "roles": roles}

    columns = "0.name 0.role organisations=1 0.last_login_at 0.disabled_at"
    return show_list("operators.html", list_operators, columns, more)


@blueprint.route("/new/", methods=["GET", "POST"])
def create() -> Response:
    """Create an operator."""
    form = OperatorForm()
    form.organisations.choices = visible_organisations()
    preview = _preview(_("New operator"), _("Creates one operator, who can log in once a password is set."))

    def perform(session: Session) -> Done:
        name, bound = str(form.name.data), form.organisations.data or ()
        create_operator(session, name, OperatorRole(form.role.data), organisations=bound)
        done = _("Operator %(name)s was created. Set a password next.", name=name)
        return Done(done, url_for("operators.set_password", name=name))

    return act(form, preview, perform)


@blueprint.route("/<name>/role/", methods=["GET", "POST"])
def set_role(name: str) -> Response:
    """Give an operator another role."""
    form = RoleForm()
    preview = _preview(
        _("Role of %(name)s", name=name),
        _("The role applies immediately, even if the operator is logged in."),
    )

    def perform(session: Session) -> Done:
        set_operator_role(session, name, OperatorRole(form.role.data))
        return Done(_("Operator %(name)s has the role %(role)s.", name=name, role=form.role.data))

    return act(form, preview, perform)


@blueprint.route("/<name>/password/", methods=["GET", "POST"])
def set_password(name: str) -> Response:
    """Set the password of an operator."""
    form = NewPasswordForm()

    def preview(session: Session) -> Preview:
        return _preview(_("Password of %(name)s", name=name), _sessions_end(session, name))

    def perform(session: Session) -> Done:
        set_operator_password(session, name, str(form.password.data))
        return Done(_("The password of operator %(name)s is set.", name=name))

    return act(form, preview, perform)


@blueprint.route("/<name>/disable/", methods=["GET", "POST"])
def disable(name: str) -> Response:
    """Disable an operator, who can then no longer log in."""

    def preview(session: Session) -> Preview:
        ends = _sessions_end(session, name)
        if name == current_operator().name:
            ends = _("This is you: you will be logged out, and cannot log in again.") + " " + ends
        return _preview(_("Disable operator %(name)s", name=name), ends, is_dangerous=True)

    def perform(session: Session) -> Done:
        disable_operator(session, name)
        return Done(_("Operator %(name)s is disabled.", name=name))

    return act(ActionForm(), preview, perform)


def _sessions_end(session: Session, name: str) -> str:
    sessions = len(list_operator_sessions(session, name))
    return (
        ngettext(
            "%(num)s session of the operator ends immediately.",
            "%(num)s sessions of the operator end immediately.",
            sessions,
        )
        if sessions
        else _("The operator is not logged in.")
    )


def _preview(title: str, sentence: str, *, is_dangerous: bool = False) -> Preview:
    return Preview(
        title=title,
        sentence=sentence,
        button=_("Disable") if is_dangerous else _("Save"),
        back=url_for("operators.show"),
        is_dangerous=is_dangerous,
    )
