"""Organisations and operations teams."""

from flask import Blueprint, render_template, url_for
from sqlalchemy.orm import Session
from werkzeug.wrappers import Response
from wtforms import BooleanField, SelectField, StringField
from wtforms.validators import InputRequired, Length

from migration_service.blueprints.console.access import current_operator, sees, visible, visible_organisations
from migration_service.blueprints.console.acting import ActionForm, Done, Preview, act
from migration_service.blueprints.console.languages import gettext as _
from migration_service.blueprints.console.languages import lazy_gettext as _l
from migration_service.blueprints.requests.resources import resources
from migration_service.services.setup.organisations import create_organisation, list_organisations
from migration_service.services.setup.suppliers import list_import_suppliers
from migration_service.services.setup.teams import create_operations_team, list_operations_teams

blueprint = Blueprint("setup", __name__, url_prefix="/setup")


class OrganisationForm(ActionForm):
    """The name of a new organisation."""

    name = StringField(_l("Name"), validators=[InputRequired(), Length(max=128)])


class TeamForm(ActionForm):
    """The name and organisation of a new team."""

    name = StringField(_l("Name"), validators=[InputRequired(), Length(max=128)])
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
    return render_template("teams.html", teams=teams)


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
