"""The texts of messages about paused batches and waiting waves.

They contain no accounts or persons, and no names of batches and waves, which clients can choose.
"""

from dataclasses import dataclass

from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_service.models import Batch, Wave
from migration_service.services.batches.results.counts import BatchProgress, count_open, get_progress
from migration_service.services.waves.reading import WaitingWave
from migration_service.states import LineStatus, WaveState

_RUNBOOKS = "docs/operators/runbooks.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertText:
    """A message without the address of the console."""

    subject: str
    #: Paragraphs: the event, and the possible reactions.
    said: tuple[str, ...]
    #: The path of the page in the console, and the command that shows the same.
    page: str
    command: str
    #: The section of the runbooks.
    runbook: str

    def write(self, console_url: str) -> str:
        """Return the body. Without the address of a console it names the command instead of the page."""
        place = f"{console_url.rstrip('/')}/{self.page}" if console_url else self.command
        return "\n\n".join([*self.said, place, f"Runbook: {_RUNBOOKS}#{self.runbook}"]) + "\n"


def describe_paused(session: Session, batch: Batch, import_supplier: str, wave: Wave | None) -> AlertText:
    """Return the message about a batch paused by the error threshold."""
    progress = get_progress(session, batch)
    done = batch.lines - count_open(progress.counts)
    of_wave = f" It is wave {wave.number} of plan {wave.plan_id}." if wave else ""
    failed = progress.counts.get(LineStatus.FAILED, 0)
    return AlertText(
        subject=f"{import_supplier}: batch {batch.id} is paused after too many errors",
        said=(
            f"Batch {batch.id} of import supplier {import_supplier} has reached its error threshold and is "
            f"paused.{of_wave} {done:,} of {batch.lines:,} lines are processed, and {failed:,} of them "
            f"failed.{_tell_commonest(progress)}",
            "No more lines are started until a person acts. Created accounts are kept, so it is safe to "
            "wait.",
        ),
        page=f"batches/{batch.id}/",
        command=f"migration-client batches show {batch.id}",
        runbook="migrationbatchpaused",
    )


def describe_waiting(session: Session, waiting: WaitingWave) -> AlertText:
    """Return the message about a wave that waits for a decision."""
    wave, code = waiting.wave, waiting.import_supplier
    differs = wave.state == WaveState.DIFFERS
    progress = get_progress(session, session.get_one(Batch, wave.batch_id))
    outcome = "differs" if differs else "is clean"
    at = f" at {write_moment(wave.reconciled_at)}" if wave.reconciled_at else ""
    return AlertText(
        subject=f"{code}: wave {wave.number} {outcome} and waits for a decision",
        said=(
            f"Wave {wave.number} of import supplier {code}, plan {wave.plan_id}, was reconciled{at}, and "
            f"{outcome}. Created accounts that differ from their staged payload: {wave.differing or 0:,}. "
            f"Open accounts: {wave.open or 0:,}.{_tell_commonest(progress)}",
            "The plan waits until a person approves or stops the wave. It is safe to wait.",
        ),
        page=f"waves/{wave.plan_id}/{wave.number}/",
        command=f"migration-client waves show {wave.plan_id}",
        runbook="migrationwavediffers" if differs else "migrationapprovalwaits",
    )


def _tell_commonest(progress: BatchProgress) -> str:
    if not progress.error_counts:
        return ""
    code, lines = next(iter(progress.error_counts.items()))
    return f" The commonest error is {code}, on {lines:,} {'line' if lines == 1 else 'lines'}."
