"""Operations teams, to which accounts are linked when they are created (section 1).

A team belongs to an organisation, or is shared so that every organisation can name it. For a caller, teams of
other organisations do not exist.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from migration_service.errors import OperationsTeamNotFoundError
from migration_service.models import OperationsTeam, Organisation
from migration_service.services.audit.entries import AuditAction, record_about
from migration_service.services.setup.names import check_name, is_name, require_unused, unique_name
from migration_service.services.setup.organisations import get_organisation


def create_operations_team(
    session: Session, name: str, *, organisation_name: str | None = None
) -> OperationsTeam:
    """Create an operations team of an organisation, or one shared by all organisations if None.

    Raise NameInvalidError, NameTakenError or OrganisationNotFoundError.
    """
    check_name(name, "name of an operations team")
    owner = None if organisation_name is None else get_organisation(session, organisation_name).id
    team = OperationsTeam(name=name, organisation_id=owner)
    with _unique(session, name, owner):
        session.add(team)
    record_about(session, AuditAction.TEAM_CREATED, team)
    return team


def get_operations_team(session: Session, name: str, organisation_name: str | None) -> OperationsTeam:
    """Return the organisation's own team with this name, or the shared one if the organisation is None.

    It is locked, so that nobody removes it before it is changed. Raise OperationsTeamNotFoundError or
    OrganisationNotFoundError.
    """
    owner = None if organisation_name is None else get_organisation(session, organisation_name).id
    wanted = OperationsTeam.name == name, OperationsTeam.organisation_id.is_not_distinct_from(owner)
    locked = select(OperationsTeam).where(*wanted).with_for_update()
    team = session.scalar(locked) if is_name(name) else None
    if team is None:
        raise OperationsTeamNotFoundError(found=name)
    return team


def rename_operations_team(session: Session, team: OperationsTeam, name: str) -> None:
    """Give a team another name. Raise InUseError, NameInvalidError or NameTakenError."""
    check_name(name, "name of an operations team")
    require_unused(session, team, f"Operations team {team.name!r}")
    record_about(session, AuditAction.TEAM_RENAMED, team, {"now": name})
    with _unique(session, name, team.organisation_id):
        team.name = name


def remove_operations_team(session: Session, team: OperationsTeam) -> None:
    """Remove a team. Raise InUseError."""
    require_unused(session, team, f"Operations team {team.name!r}", remove=True)
    record_about(session, AuditAction.TEAM_REMOVED, team)


def _unique(session: Session, name: str, owner: int | None) -> AbstractContextManager[None]:
    constraint = "uq_operations_team_shared" if owner is None else "uq_operations_team_organisation_id_name"
    return unique_name(session, constraint, f"Operations team {name!r} already exists.")


def get_operations_team_id(session: Session, organisation_id: int, name: str | None) -> int:
    """Return the id of the organisation's team with this name, or else of the shared one.

    Raise OperationsTeamNotFoundError.
    """
    team_id = session.scalar(
        select(OperationsTeam.id)
        .where(
            OperationsTeam.name == name,
            or_(OperationsTeam.organisation_id == organisation_id, OperationsTeam.organisation_id.is_(None)),
        )
        .order_by(OperationsTeam.organisation_id.nulls_last())
        .limit(1)
    )
    if team_id is None:
        raise OperationsTeamNotFoundError(found=name)
    return team_id


def get_operations_team_name(session: Session, operations_team_id: int) -> str:
    """Return the name of the team that a row refers to."""
    return session.get_one(OperationsTeam, operations_team_id).name


def list_operations_teams(session: Session) -> Sequence[tuple[OperationsTeam, str | None]]:
    """Return all operations teams by name, with the name of their organisation, or None if shared."""
    owned = select(OperationsTeam, Organisation.name).outerjoin(Organisation)
    return session.execute(owned.order_by(OperationsTeam.name, OperationsTeam.id)).all()
