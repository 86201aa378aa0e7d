"""Organisations, which own API keys and import suppliers (section 5)."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.errors import OrganisationNotFoundError
from migration_service.models import Organisation
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.setup.names import check_name, is_name, unique_name


def create_organisation(session: Session, name: str) -> Organisation:
    """Create an organisation. Raise NameInvalidError, or NameTakenError if it already exists."""
    check_name(name, "name of an organisation")
    organisation = Organisation(name=name)
    with unique_name(session, "uq_organisation_name", f"Organisation {name!r} already exists."):
        session.add(organisation)
    record(session, AuditAction.ORGANISATION_CREATED, "organisation", name, organisation_id=organisation.id)
    return organisation


def get_organisation(session: Session, name: str) -> Organisation:
    """Return the organisation with this name. Raise OrganisationNotFoundError if it does not exist."""
    organisation = None
    if is_name(name):
        organisation = session.scalar(select(Organisation).where(Organisation.name == name))
    if organisation is None:
        raise OrganisationNotFoundError(found=name)
    return organisation


def list_organisations(session: Session) -> Sequence[Organisation]:
    """Return all organisations, ordered by name."""
    return session.scalars(select(Organisation).order_by(Organisation.name)).all()
