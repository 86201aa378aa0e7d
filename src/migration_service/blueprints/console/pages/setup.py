"""Organisations and operations teams."""

from flask import Blueprint, abort, render_template, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField, SelectField, StringField
from wtforms.validators import InputRequired, Length

from migration_service.blueprints.console.access import (
    current_operator,
    may_change,
    sees,
    visible,
    visible_organisations,
)
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.requests.resources import resources
from migration_service.models import OperationsTeam
from migration_service.services.setup.organisations import create_organisation, list_organisations
from migration_service.services.setup.suppliers import list_import_suppliers
from migration_service.services.setup.teams import (
    create_operations_team,
    list_operations_teams,
    remove_operations_team,
    rename_operations_team,
)

blueprint = Blueprint("setup", __name__, url_prefix="/setup")


class OrganisationForm(ActionForm):
    """The name of an organisation or a team."""

    name = StringField(_l("Name"), validators=[InputRequired(), Length(max=128)])


class TeamForm(OrganisationForm):
    """The name and organisation of a new team."""

    organisation = SelectField(_l("Organisation"))
    shared = BooleanField(_l("All organisations share it"))


@blueprint.get("/organisations/")
def show_organisations() -> str:
    """List organisations, each with its import suppliers."""
    with resources().Session.begin() as session:
        organisations = [it for it in list_organisations(session) if sees(it.id)]
        suppliers = [supplier for supplier, _owner in visible(list_import_suppliers(session))]
    return render_template("organisations.html", organisations=organisations, suppliers=suppliers)


@blueprint.get("/teams/")
def show_teams() -> str:
    """List operations teams."""
    with resources().Session.begin() as session:
        teams = [row for row in list_operations_teams(session) if sees(row[0].organisation_id)]
    return render_template("teams.html", teams=teams, may_change=may_change)


@blueprint.route("/organisations/new/", methods=["GET", "POST"])
def create_new_organisation() -> Response:
    """Create an organisation."""
    form = OrganisationForm()

    preview = Preview(
        title=_("New organisation"),
        sentence=_("Creates one organisation. It sees nothing of another one."),
        button=_("Create"),
        back=url_for("setup.show_organisations"),
    )

    def perform(session: Session) -> Done:
        name = create_organisation(session, str(form.name.data)).name
        return Done(_("Organisation %(name)s was created.", name=name))

    return act(form, preview, perform)


@blueprint.route("/teams/new/", methods=["GET", "POST"])
def create_team() -> Response:
    """Create an operations team. Only operators bound to no organisation may create a shared team."""
    form = TeamForm()
    form.organisation.choices = visible_organisations()
    if current_operator().organisation_ids is not None:
        del form.shared

    preview = Preview(
        title=_("New operations team"),
        sentence=_("Creates one team, to which created accounts can be linked."),
        button=_("Create"),
        back=url_for("setup.show_teams"),
    )

    def perform(session: Session) -> Done:
        name, is_shared = str(form.name.data), form.shared is not None and form.shared.data
        owner = None if is_shared else str(form.organisation.data)
        create_operations_team(session, name, organisation_name=owner)
        return Done(_("Operations team %(name)s was created.", name=name))

    return act(form, preview, perform)


@blueprint.route("/teams/<int:team_id>/rename/", methods=["GET", "POST"])
def rename_team(team_id: int) -> Response:
    """Give a team to which nothing refers another name."""
    form = OrganisationForm()

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Rename %(name)s", name=_find_team(session, team_id).name),
            sentence=_("It gets another name. This is possible as long as no batch or account has the team."),
            button=_("Rename"),
            back=url_for("setup.show_teams"),
        )

    def perform(session: Session) -> Done:
        team, name = _find_team(session, team_id), str(form.name.data)
        done = _("%(before)s is %(name)s from now on.", before=team.name, name=name)
        rename_operations_team(session, team, name)
        return Done(done)

    return act(form, preview, perform)


@blueprint.route("/teams/<int:team_id>/remove/", methods=["GET", "POST"])
def remove_team(team_id: int) -> Response:
    """Remove a team to which nothing refers."""

    def preview(session: Session) -> Preview:
        return Preview(
            title=_("Remove %(code)s", code=_find_team(session, team_id).name),
            sentence=_("It is removed. This is possible as long as no batch or account has the team."),
            button=_("Remove"),
            back=url_for("setup.show_teams"),
            is_dangerous=True,
        )

    def perform(session: Session) -> Done:
        team = _find_team(session, team_id)
        remove_operations_team(session, team)
        return Done(_("%(code)s is removed.", code=team.name))

    return act(ActionForm(), preview, perform)


def _find_team(session: Session, team_id: int) -> OperationsTeam:
    """Return a team that the operator may change."""
    teams = (team for team, _owner in list_operations_teams(session) if may_change(team.organisation_id))
    return next((team for team in teams if team.id == team_id), None) or abort(404)
