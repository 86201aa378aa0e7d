"""Keeping the slots in Redis in step with the attempts in the database."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy.orm import Session

from migration_service.services.batches.chunks import list_live_batch_attempts
from migration_service.services.processing.attempts import list_live_attempts
from migration_service.slots import LiveAttempt, Slots


def reconcile_slots(session: Session, slots: Slots) -> None:
    """Give each attempt in progress its slot, confirm its lease, and free the slots of all others."""
    added = slots.reconcile(_list_live(session))
    if added:
        # Those that ended between the two looks have no slot to hold any more.
        still = {attempt.id for attempt in _list_live(session, [UUID(id_) for id_ in added])}
        slots.release(set(added) - still)


def _list_live(session: Session, among: Sequence[UUID] | None = None) -> list[LiveAttempt]:
    return list_live_attempts(session, among) + list_live_batch_attempts(session, among)
