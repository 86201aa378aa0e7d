"""Everything that happened to an account, in order of time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy.orm import Session

from migration_service.models import Account, AccountImportProcess
from migration_service.services.audit.trail import list_entries_about
from migration_service.services.reporting.attempts import read_attempts
from migration_service.services.reporting.timeline import list_events
from migration_service.states import Outcome


class Source(StrEnum):
    """Sources of the timeline, besides the kinds of `services.reporting.timeline`."""

    STAGED = "staged"
    CREATED = "created"
    ATTEMPT = "attempt"
    LINE = "line"
    AUDIT = "audit"


@dataclass(frozen=True, slots=True)
class Moment:
    """One event. Its kind tells the template what `told` is."""

    at: datetime
    kind: str
    told: Any


def tell(
    session: Session,
    process: AccountImportProcess | None,
    account: Account | None,
    lines: Sequence[Mapping[str, Any]],
    *,
    subject: str,
) -> list[Moment]:
    """Return the timeline of an account, newest first. `subject` is its name in the audit."""
    # Events of the same moment are in this order, the last first.
    moments: list[Moment] = []
    if process is not None:
        attempts = read_attempts(session, process.id)
        # An account that was created more than once was undone in between.
        created = sum(it.outcome == Outcome.SUCCEEDED and not it.dry_run for it in attempts)
        was_undone = created > (account is not None)
        events = list_events(session, process.id, account.id if account else None, was_undone=was_undone)
        moments += [Moment(event.at, event.kind, event) for event in events]
        if process.account_created_at is not None:
            moments.append(Moment(process.account_created_at, Source.CREATED, process))
        moments += [Moment(attempt.created_at, Source.ATTEMPT, attempt) for attempt in reversed(attempts)]
        moments.append(Moment(process.staged_at, Source.STAGED, process))
    ids = [subject] if process is None else [subject, str(process.id)]
    entries = list_entries_about(session, "account", ids)
    moments += [Moment(entry["at"], Source.AUDIT, entry) for entry in entries]
    moments += [Moment(line["created_at"], Source.LINE, line) for line in lines]
    return sorted(moments, key=lambda it: it.at, reverse=True)
