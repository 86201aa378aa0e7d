"""Operators: the people who log in here, with their roles and passwords."""

from typing import Any

from flask import Blueprint, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import PasswordField, SelectField, SelectMultipleField, StringField
from wtforms.validators import EqualTo, InputRequired, Length

from migration_service.blueprints.console.access import current_operator, visible_organisations
from migration_service.blueprints.console.acting import Act, ActionForm, Facts, add_acts
from migration_service.blueprints.console.languages import _, _l, mark, mark_plural
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.services.access import operators
from migration_service.services.access.operator_sessions import list_operator_sessions
from migration_service.services.access.operators import OperatorRole

blueprint = Blueprint("operators", __name__, url_prefix="/setup/operators")

_ROLES = [role.value for role in OperatorRole]
_ROLES_MEAN = _l(
    "read sees every page, with personal data masked. operate also runs batches and waves, and sees personal "
    "data. administer also sets go-live, creates suppliers and teams, and revokes keys."
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
        choices=visible_organisations,
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
    return show_list("operators.html", operators.list_operators, columns, more)


def _count_sessions(session: Session, name: str | None = None) -> int:
    """Return the number of open sessions of an operator, or 0 for a new one."""
    return len(list_operator_sessions(session, name)) if name is not None else 0


def _say_what_ends(sessions: int) -> str | tuple[str, str]:
    if not sessions:
        return mark("The operator is not logged in.")
    return mark_plural(
        "%(num)s session of the operator ends immediately.",
        "%(num)s sessions of the operator end immediately.",
    )


def _warn_of_oneself(_session: Session, name: str) -> Facts:
    if name != current_operator().name:
        return ()
    return ((_("This is you"), _("you will be logged out, and cannot log in again.")),)


_ACTS = [
    Act[int](
        name="create",
        path="new",
        form=OperatorForm,
        title=mark("New operator"),
        sentence=mark("Creates one operator, who can log in once a password is set."),
        button=mark("Save"),
        done=mark("Operator %(name)s was created. Set a password next."),
        do=lambda session, name, role, organisations: operators.create_operator(
            session, name, OperatorRole(role), organisations=organisations or ()
        ),
        leads_to=lambda name, **_others: url_for("operators.set_password", name=name),
    ),
    Act[int](
        name="set_role",
        path="<name>/role",
        form=RoleForm,
        title=mark("Role of %(name)s"),
        sentence=mark("The role applies immediately, even if the operator is logged in."),
        button=mark("Save"),
        done=mark("Operator %(name)s has the role %(role)s."),
        do=lambda session, name, role: operators.set_operator_role(session, name, OperatorRole(role)),
    ),
    Act[int](
        name="set_password",
        path="<name>/password",
        form=NewPasswordForm,
        title=mark("Password of %(name)s"),
        sentence=_say_what_ends,
        number=int,
        button=mark("Save"),
        done=mark("The password of operator %(name)s is set."),
        do=lambda session, name, password, **_again: operators.set_operator_password(session, name, password),
    ),
    Act[int](
        name="disable",
        path="<name>/disable",
        title=mark("Disable operator %(name)s"),
        sentence=_say_what_ends,
        number=int,
        more_facts=_warn_of_oneself,
        button=mark("Disable"),
        done=mark("Operator %(name)s is disabled."),
        do=operators.disable_operator,
        is_dangerous=True,
    ),
]
add_acts(blueprint, "/", _ACTS, show=_count_sessions, back=lambda **_names: url_for("operators.show"))
