"""Brakes, which pages call error thresholds: a batch with too many errors is paused before it does more harm.

Chosen warnings may count, too. A line that fails and has such a warning counts once.

A brake is checked each time before a worker begins lines of the batch, so a worker finishes at most the chunk
that it has. The counts are sums over whole chunks (`counts.recount`). After a batch was resumed or retried by
somebody who has seen the errors, only the chunks count that were worked on since.
"""

import re
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, DateTime, Text, bindparam, text
from sqlalchemy.orm import Session

from migration_service.errors import (
    BatchStateError,
)
from migration_service.models import Batch
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED, pause_by_brake
from migration_service.states import BatchMode, BatchState

#: What stands for a batch without a brake in `stop_after_errors`.
OFF = "off"

#: A percentage as a threshold.
PERCENTAGE = re.compile(r"(\d{1,2}(?:\.\d{1,2})?)%", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brake:
    """When a batch is paused. The names are those of the interface."""

    #: A number of failed lines, a percentage as `50%`, or OFF. A number is enough to pause the batch; a
    #: percentage must be exceeded.
    stop_after_errors: str
    #: A percentage counts from this number of lines on. None for a number.
    stop_min_lines: int | None = None
    #: Only the chunks that were worked on last count, as many as have this number of lines. None: all.
    stop_window_lines: int | None = None
    #: A line does not count if it has no other codes.
    stop_ignore_codes: tuple[str, ...] = ()
    #: A line with one of these warnings counts, too.
    stop_count_warnings: tuple[str, ...] = ()

    def is_reached(self, measured: "BrakeCounts") -> bool:
        """Return whether the batch is to be paused."""
        if percentage := PERCENTAGE.fullmatch(self.stop_after_errors):
            enough = measured.lines >= (self.stop_min_lines or 1)
            return enough and measured.errors * 100 > float(percentage[1]) * measured.lines
        return measured.errors >= int(self.stop_after_errors)

    def to_dict(self) -> dict[str, Any]:
        """Return the brake as it is stored. Without warnings it is one that every version can read."""
        stored = asdict(self) | {"stop_ignore_codes": list(self.stop_ignore_codes)}
        warnings = list(stored.pop("stop_count_warnings"))
        return stored | ({"stop_count_warnings": warnings} if warnings else {})

    def to_report(self) -> dict[str, Any]:
        """Return the brake as it is reported, with every member."""
        return {"stop_count_warnings": []} | self.to_dict()


@dataclass(frozen=True, slots=True)
class BrakeCounts:
    """What a brake counts at this moment."""

    lines: int
    errors: int


#: A percentage of fewer lines of a wave says nothing.
_LEAST_LINES_OF_WAVE = 10

#: What brakes a batch that says nothing about it: nothing, or for imports a mapping that is wrong.
NO_BRAKE = Brake(stop_after_errors=OFF)
IMPORT_BRAKE = Brake(stop_after_errors="50%", stop_min_lines=200, stop_window_lines=200)


def usual_brake(mode: BatchMode) -> Brake:
    """Return the brake of a batch that was not told otherwise. A rehearsal is to show every error."""
    return IMPORT_BRAKE if mode is BatchMode.IMPORT else NO_BRAKE


def fit_to_wave(brake: Brake, lines: int) -> Brake:
    """Return the brake of a wave with so many lines, which is reached while most of them are still to come.

    A percentage counts from a fifth of them on at the latest, but not before 10.
    """
    if brake.stop_min_lines is None:
        return brake
    return replace(brake, stop_min_lines=min(brake.stop_min_lines, max(lines // 5, _LEAST_LINES_OF_WAVE)))


def stored_brake(values: dict[str, Any] | None) -> Brake:
    """Return a brake from `Batch.brake`."""
    if values is None:
        return NO_BRAKE
    lists = {name: tuple(values.get(name, ())) for name in ("stop_ignore_codes", "stop_count_warnings")}
    return Brake(**(values | lists))


def brake_to_report(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what is reported of `Batch.brake`, or None if nothing brakes the batch."""
    return None if values is None else stored_brake(values).to_report()


def brake_to_store(brake: Brake) -> dict[str, Any] | None:
    """Return what is stored in `Batch.brake`: nothing if nothing brakes the batch."""
    return None if brake.stop_after_errors == OFF else brake.to_dict()


def set_brake(session: Session, batch: Batch, brake: Brake) -> None:
    """Replace the brake of a batch, which may be running. Raise BatchStateError if the batch was cancelled.

    What was counted before counts under the new brake, too.
    """
    session.refresh(batch, with_for_update=True)
    if batch.state == BatchState.CANCELLED:
        raise BatchStateError("The batch was cancelled.")
    batch.brake = brake_to_store(brake)
    _record(session, AuditAction.BATCH_BRAKE_SET, batch.id, batch.organisation_id, brake.to_dict())


def apply_brake(session: Session, batch_id: UUID, values: dict[str, Any], since: datetime | None) -> bool:
    """Pause the batch if its brake is reached. Return whether it is.

    `values` and `since` are `Batch.brake` and `Batch.brake_since`.
    """
    brake = stored_brake(values)
    measured = measure(session, batch_id, brake, since)
    if not brake.is_reached(measured):
        return False
    organisation_id = pause_by_brake(session, batch_id)
    if organisation_id is not None:
        codes = count_codes(session, batch_id, brake, since)
        details = {"reason": ERROR_THRESHOLD_REACHED, **asdict(measured), "codes": codes, **brake.to_dict()}
        _record(session, AuditAction.BATCH_PAUSED, batch_id, organisation_id, details)
    return True


def measure(session: Session, batch_id: UUID, brake: Brake, since: datetime | None) -> BrakeCounts:
    """Return what the brake counts now: chunks that were worked on after `since` (None: all)."""
    row = session.execute(_MEASURE, _values(batch_id, brake, since)).one()
    return BrakeCounts(int(row.lines), int(row.errors))


def count_codes(session: Session, batch_id: UUID, brake: Brake, since: datetime | None) -> dict[str, int]:
    """Return how many of the measured lines have each code that counts, the commonest first."""
    rows = session.execute(_CODES, _values(batch_id, brake, since))
    return {row.code: int(row.lines) for row in rows}


def _values(batch_id: UUID, brake: Brake, since: datetime | None) -> dict[str, Any]:
    return {
        "batch_id": batch_id,
        "since": since,
        "window": brake.stop_window_lines,
        "ignored": list(brake.stop_ignore_codes),
        "counted": list(brake.stop_count_warnings),
    }


def _record(
    session: Session, action: AuditAction, batch_id: UUID, organisation_id: int, details: dict[str, Any]
) -> None:
    record(session, action, "batch", batch_id, organisation_id=organisation_id, details=details)


# The key of `failures` has the codes of its lines, separated by blanks. That of `warned` has the codes of
# errors of a FAILED line, `|`, and those of warnings. A chunk has at least one line, so no window has more
# chunks than lines.
_MEASURED = """
    WITH recent AS MATERIALIZED (
        SELECT first_line, done, failures, warned, worked_at FROM batch_chunk
        WHERE batch_id = :batch_id AND worked_at > coalesce(:since, '-infinity') AND done > 0
        ORDER BY worked_at DESC, first_line DESC LIMIT :window
    ), counted AS (
        SELECT done, failures, warned,
               sum(done) OVER (ORDER BY worked_at DESC, first_line DESC) - done AS newer
        FROM recent
    ), measured AS MATERIALIZED (
        SELECT done, failures, warned FROM counted WHERE :window IS NULL OR newer < :window
    ), failed AS (
        SELECT string_to_array(key, ' ') AS codes, CAST(value AS bigint) AS lines
        FROM (SELECT failures FROM measured WHERE failures <> '{}') AS these, jsonb_each_text(failures)
    ), doubtful AS (
        SELECT string_to_array(split_part(key, '|', 1), ' ') AS errors,
               string_to_array(split_part(key, '|', 2), ' ') AS codes, CAST(value AS bigint) AS lines
        FROM (SELECT warned FROM measured WHERE cardinality(:counted) > 0 AND warned <> '{}') AS these,
             jsonb_each_text(warned)
    )
"""
_BINDS = (
    bindparam("since", type_=DateTime(timezone=True)),
    bindparam("window", type_=BigInteger),
    bindparam("ignored", type_=ARRAY(Text)),
    bindparam("counted", type_=ARRAY(Text)),
)

# A line that fails and has a warning that counts is counted among the failed ones, unless its errors are left
# out. Of a line that did not fail the array of errors is empty, which is contained in every array.
_MEASURE = text(f"""{_MEASURED}
    SELECT (SELECT coalesce(sum(done), 0) FROM measured) AS lines,
           (SELECT coalesce(sum(lines), 0) FROM failed WHERE NOT codes <@ :ignored)
           + (SELECT coalesce(sum(lines), 0) FROM doubtful WHERE codes && :counted AND errors <@ :ignored)
           AS errors
""").bindparams(*_BINDS)

_CODES = text(f"""{_MEASURED}
    SELECT code, sum(lines) AS lines FROM (
        SELECT code, lines FROM failed, unnest(codes) AS code WHERE code <> ALL (:ignored)
        UNION ALL
        SELECT code, lines FROM doubtful, unnest(codes) AS code WHERE code = ANY (:counted)) AS found
    GROUP BY code ORDER BY 2 DESC, 1
""").bindparams(*_BINDS)
