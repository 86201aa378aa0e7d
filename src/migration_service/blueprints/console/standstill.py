"""Why a batch or a wave is paused: which errors it has, on which lines, and who paused it."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from migration_service.origin import ActorKind
from migration_service.services.audit.entries import AuditAction
from migration_service.services.audit.trail import list_entries_about
from migration_service.services.batches.control import BatchReport
from migration_service.services.batches.results.findings import ShownLine, list_lines
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.states import BatchState

_PAUSES = (AuditAction.BATCH_PAUSED, AuditAction.WAVE_PAUSED)
#: The number of lines that are shown.
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Standstill:
    """A batch that is paused. Its error threshold has the counts."""

    batch: BatchReport
    #: Who paused it, and when, as far as that is recorded. The service itself has no name.
    by: str | None
    at: datetime | None
    #: The commonest code that counts, and the first lines that have it.
    code: str | None
    examples: list[ShownLine]

    @property
    def kind(self) -> str | None:
        """Return the kind of the code for the page about it: `warning`, or None for an error."""
        return None if self.code in (self.batch.error_counts or {}) else "warning"


def explain_standstill(session: Session, batch: BatchReport, wave: str = "") -> Standstill | None:
    """Return why a batch is paused, or None if it is not. `wave` is the name of its wave in the audit."""
    if batch.state not in (BatchState.PAUSED, BatchState.STOPPED):
        return None
    entries = list_entries_about(session, "batch", [str(batch.batch_id)])
    if wave:  # which the service pauses a moment after its batch
        of_wave = list_entries_about(session, "wave", [wave])
        entries += [it for it in of_wave if it["actor_kind"] != ActorKind.SERVICE]
    last = max((it for it in entries if it["action"] in _PAUSES), key=lambda it: it["at"], default=None)
    code = next(iter((batch.brake or {}).get("codes") or {}), None)
    lines = list_lines(session, batch.batch_id, ResultFilter(code=code), limit=_EXAMPLES)[0] if code else []
    return Standstill(batch, last["actor"] if last else None, last["at"] if last else None, code, lines)
