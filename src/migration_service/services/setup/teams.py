"""Operations teams. An account is linked to one when it is created (section 1)."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.models import OperationsTeam
from migration_service.services.setup.names import check_name, unique_name


def create_operations_team(session: Session, name: str) -> OperationsTeam:
    """Create an operations team. Raise NameInvalidError, or NameTakenError if it already exists."""
    check_name(name, "name of an operations team")
    team = OperationsTeam(name=name)
    with unique_name(session, "uq_operations_team_name", f"Operations team {name!r} already exists."):
        session.add(team)
    return team


def list_operations_teams(session: Session) -> Sequence[OperationsTeam]:
    """Return every operations team, ordered by name."""
    return session.scalars(select(OperationsTeam).order_by(OperationsTeam.name)).all()
