"""Keeping the slots in Redis in step with the attempts in the database."""

from uuid import UUID

from sqlalchemy.orm import Session

from migration_service.services.attempts import list_live_attempts
from migration_service.slots import Slots


def reconcile_slots(session: Session, slots: Slots) -> None:
    """Give each attempt in progress its slot, confirm its lease, and free the slots of all others."""
    added = slots.reconcile(list_live_attempts(session))
    if added:
        # Those that ended between the two looks have no slot to hold any more.
        still = {attempt.id for attempt in list_live_attempts(session, [UUID(id_) for id_ in added])}
        slots.release(set(added) - still)
