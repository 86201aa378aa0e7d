"""The organisations that the operator may see, for forms with a choice of one."""

from migration_service.blueprints.console.access import sees
from migration_service.blueprints.requests.resources import resources
from migration_service.services.setup.organisations import list_organisations


def visible_organisations() -> list[str]:
    """Return the names of the organisations that the operator may see."""
    with resources().Session.begin() as session:
        return [it.name for it in list_organisations(session) if sees(it.id)]
