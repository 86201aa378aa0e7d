"""Alerts by e-mail to the people who run a migration, once for each event that needs them.

The sweep finds batches paused by the error threshold, and waves that wait for a decision. A batch that was
resumed, or a wave that was decided, before the sweep needs no message. The key of an event says what
happened, to what and when. The key and the recipient are unique, so two simultaneous sweeps record a message
once.

The texts contain no accounts or persons, and no names of batches and waves, which clients can choose.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.db.base import one_of
from migration_service.models import AlertEmail, Batch, ImportSupplier, Wave
from migration_service.services.batches.results.counts import BatchProgress, count_open, get_progress
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED
from migration_service.services.waves.reading import WaitingWave, find_wave, list_waiting
from migration_service.states import BatchState, LineStatus, WaveState

_RUNBOOKS = "docs/operators/runbooks.md"

#: The key of an event, and what reads the subject and the body of its message, which are only needed once.
#: It gets the address of the console.
_Event = tuple[str, Callable[[str], tuple[str, str]]]


def record_alerts(session: Session, recipients: Sequence[str], console_url: str) -> None:
    """Record a message to each recipient for each new event."""
    events = [*_find_paused(session), *_find_waiting(session)]
    if not events:
        return
    of_these = one_of(AlertEmail.event.expression, [key for key, _describe in events])
    told = session.execute(select(AlertEmail.event, AlertEmail.recipient).where(of_these))
    known = {(row.event, row.recipient) for row in told}
    for key, describe in events:
        missing = [it for it in recipients if (key, it) not in known]
        if not missing:
            continue
        subject, body = describe(console_url)
        rows = [{"event": key, "subject": subject, "body": body, "recipient": it} for it in missing]
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
        yield key, partial(describe_paused, session, batch, code, wave)


def _write(moment: datetime | None) -> str:
    """Return a time to the microsecond, in the same form in every worker."""
    return moment.astimezone(UTC).isoformat() if moment else ""


def _find_waiting(session: Session) -> Iterator[_Event]:
    for it in list_waiting(session):
        key = f"wave.{it.wave.state} {it.wave.plan_id} {it.wave.number} {_write(it.wave.reconciled_at)}"
        yield key, partial(_describe_waiting, session, it)


def describe_paused(
    session: Session, batch: Batch, import_supplier: str, wave: Wave | None, console_url: str
) -> tuple[str, str]:
    """Return the subject and the body of the message about a batch paused by the error threshold."""
    progress = get_progress(session, batch)
    done = batch.lines - count_open(progress.counts)
    of_wave = f" It is wave {wave.number} of plan {wave.plan_id}." if wave else ""
    failed = progress.counts.get(LineStatus.FAILED, 0)
    body = _write_body(
        f"Batch {batch.id} of import supplier {import_supplier} has reached its error threshold and is "
        f"paused.{of_wave} {done:,} of {batch.lines:,} lines are processed, and {failed:,} of them "
        f"failed.{_tell_commonest(progress)}",
        "No more lines are started until a person acts. Created accounts are kept, so it is safe to wait.",
        place=_find_place(console_url, f"batches/{batch.id}/", f"batches show {batch.id}"),
        runbook="migrationbatchpaused",
    )
    return f"{import_supplier}: batch {batch.id} is paused after too many errors", body


def _describe_waiting(session: Session, waiting: WaitingWave, console_url: str) -> tuple[str, str]:
    """Return the subject and the body of the message about a wave that waits for a decision."""
    wave, code = waiting.wave, waiting.import_supplier
    differs = wave.state == WaveState.DIFFERS
    progress = get_progress(session, session.get_one(Batch, wave.batch_id))
    outcome = "differs" if differs else "is clean"
    at = f" at {write_moment(wave.reconciled_at)}" if wave.reconciled_at else ""
    body = _write_body(
        f"Wave {wave.number} of import supplier {code}, plan {wave.plan_id}, was reconciled{at}, and "
        f"{outcome}. Created accounts that differ from their staged payload: {wave.differing or 0:,}. "
        f"Open accounts: {wave.open or 0:,}.{_tell_commonest(progress)}",
        "The plan waits until a person approves or stops the wave. It is safe to wait.",
        place=_find_place(console_url, f"waves/{wave.plan_id}/{wave.number}/", f"waves show {wave.plan_id}"),
        runbook="migrationwavediffers" if differs else "migrationapprovalwaits",
    )
    return f"{code}: wave {wave.number} {outcome} and waits for a decision", body


def _write_body(said: str, may_be_done: str, *, place: str, runbook: str) -> str:
    return f"{said}\n\n{may_be_done}\n\n{place}\n\nRunbook: {_RUNBOOKS}#{runbook}\n"


def _find_place(console_url: str, page: str, command: str) -> str:
    """Return the address of a page, or without the address of a console the command that shows the same."""
    return f"{console_url.rstrip('/')}/{page}" if console_url else f"migration-client {command}"


def _tell_commonest(progress: BatchProgress) -> str:
    if not progress.error_counts:
        return ""
    code, lines = next(iter(progress.error_counts.items()))
    return f" The commonest error is {code}, on {lines:,} {'line' if lines == 1 else 'lines'}."
