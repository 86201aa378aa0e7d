"""Operations teams."""

from flask import Blueprint, abort, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField, SelectField, StringField
from wtforms.validators import InputRequired, Length

from migration_service.blueprints.console import access
from migration_service.blueprints.console.acting import Act, ActionForm, add_acts
from migration_service.blueprints.console.languages import _l, mark
from migration_service.blueprints.console.lists import list_at, show_list
from migration_service.models import OperationsTeam
from migration_service.services.setup import teams

blueprint = Blueprint("setup", __name__, url_prefix="/setup")


class NameForm(ActionForm):
    """The name of a team."""

    name = StringField(_l("Name"), validators=[InputRequired(), Length(max=128)])


class TeamForm(NameForm):
    """The name and organisation of a new team. Only operators bound to none may create a shared one."""

    organisation = SelectField(_l("Organisation"), choices=access.visible_organisations)
    shared = BooleanField(_l("All organisations share it"))

    def __init__(self) -> None:
        super().__init__()
        if access.current_operator().organisation_ids is not None:
            del self.shared


@list_at(blueprint, "/teams/")
def show_teams() -> Response:
    """List operations teams."""
    return show_list(
        "teams.html",
        lambda session: access.visible(teams.list_operations_teams(session)),
        "0.name organisation=1 0.created_at",
        lambda _session, _found: {"may_change": access.may_change},
    )


def _find_team(session: Session, team_id: int) -> OperationsTeam:
    """Return a team that the operator may change."""
    found = (
        it for it, _owner in teams.list_operations_teams(session) if access.may_change(it.organisation_id)
    )
    return next((it for it in found if it.id == team_id), None) or abort(404)


add_acts(
    blueprint,
    "/teams/",
    [
        Act[None](
            name="create_team",
            path="new",
            form=TeamForm,
            title=mark("New operations team"),
            sentence=mark("Creates one team, to which created accounts can be linked."),
            button=mark("Create"),
            done=mark("Operations team %(name)s was created."),
            do=lambda session, name, organisation, shared=False: teams.create_operations_team(
                session, name, organisation_name=None if shared else organisation
            ),
        )
    ],
    back=lambda: url_for("setup.show_teams"),
)
add_acts(
    blueprint,
    "/teams/<int:team_id>/",
    [
        Act[OperationsTeam](
            name="rename_team",
            path="rename",
            form=NameForm,
            starts_with=lambda team: {"name": team.name},
            title=mark("Rename %(code)s"),
            sentence=mark(
                "It gets another name. This is possible as long as no batch or account has the team."
            ),
            button=mark("Rename"),
            done=mark("%(code)s is %(name)s from now on."),
            do=lambda session, team_id, name: teams.rename_operations_team(
                session, _find_team(session, team_id), name
            ),
        ),
        Act[OperationsTeam](
            name="remove_team",
            path="remove",
            title=mark("Remove %(code)s"),
            sentence=mark("It is removed. This is possible as long as no batch or account has the team."),
            button=mark("Remove"),
            done=mark("%(code)s is removed."),
            do=lambda session, team_id: teams.remove_operations_team(session, _find_team(session, team_id)),
            is_dangerous=True,
        ),
    ],
    show=_find_team,
    back=lambda team_id: url_for("setup.show_teams"),
    values=lambda team: {"code": team.name},
)
