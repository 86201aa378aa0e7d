"""Alerts by e-mail to the people who run a migration, once for each event that needs them.

The sweep finds batches paused by the error threshold, and waves that wait for a decision. A batch that was
resumed, or a wave that was decided, before the sweep needs no message. The key of an event says what
happened, to what and when. The key and the recipient are unique, so two simultaneous sweeps record a message
once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.models import AlertEmail, Batch, ImportSupplier
from migration_service.services.alerts.texts import AlertText, describe_paused, describe_waiting
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.services.waves.reading import find_wave, list_waiting
from migration_service.states import BatchState


@dataclass(frozen=True, slots=True)
class _Event:
    key: str
    #: Reads the contents of the message, which are only needed once.
    describe: Callable[[], AlertText]


def record_alerts(session: Session, recipients: Sequence[str], console_url: str) -> None:
    """Record a message to each recipient for each new event."""
    events = [*_find_paused(session), *_find_waiting(session)]
    if not events:
        return
    of_these = one_of(AlertEmail.event.expression, [event.key for event in events])
    told = session.execute(select(AlertEmail.event, AlertEmail.recipient).where(of_these))
    known = {(row.event, row.recipient) for row in told}
    for event in events:
        missing = [it for it in recipients if (event.key, it) not in known]
        if not missing:
            continue
        found = event.describe()
        text = {"event": event.key, "subject": found.subject, "body": found.write(console_url)}
        rows = [text | {"recipient": recipient} for recipient in missing]
        session.execute(insert(AlertEmail).values(rows).on_conflict_do_nothing())


def _find_paused(session: Session) -> Iterator[_Event]:
    rows = session.execute(
        select(Batch, ImportSupplier.code)
        .join(ImportSupplier, ImportSupplier.id == Batch.import_supplier_id)
        .where(
            Batch.finished_at.is_(None),
            Batch.state == BatchState.PAUSED,
            Batch.reason == ERROR_THRESHOLD_REACHED,
        )
    )
    for batch, code in rows:
        # Only a person can resume it, which changes `brake_since`.
        key = f"batch.paused {batch.id} {_write(batch.brake_since or batch.created_at)}"
        wave = find_wave(session, batch.id)
        yield _Event(key, partial(describe_paused, session, batch, code, wave))


def _write(moment: datetime | None) -> str:
    """Return a time to the microsecond, in the same form in every worker."""
    return moment.astimezone(UTC).isoformat() if moment else ""


def _find_waiting(session: Session) -> Iterator[_Event]:
    for it in list_waiting(session):
        key = f"wave.{it.wave.state} {it.wave.plan_id} {it.wave.number} {_write(it.wave.reconciled_at)}"
        yield _Event(key, partial(describe_waiting, session, it))
