"""Brakes: a batch with too many errors is paused before it does more harm.

A brake is checked each time before a worker begins lines of the batch, so a worker finishes at most the chunk
that it has. The counts are sums over whole chunks (`counts.recount`). After a batch was resumed or retried by
somebody who has seen the errors, only the chunks count that were worked on since.
"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, DateTime, Text, bindparam, text
from sqlalchemy.orm import Session

from migration_service.errors import BatchStateError, ErrorItem, RequestFailedValidationError
from migration_service.models import Batch
from migration_service.services.access.audit import AuditAction, record
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED, pause_by_brake
from migration_service.states import BatchMode, BatchState

#: The lines of the largest window, and of the largest number after which a percentage counts.
MAX_WINDOW = 10_000
#: The codes that a brake may leave out.
MAX_IGNORED_CODES = 50
#: The lines after which a percentage of the whole batch counts, unless told otherwise.
USUAL_MIN_LINES = 200
#: What stands for a batch without a brake in `stop_after_errors`.
OFF = "off"

_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_PERCENTAGE = re.compile(r"(\d{1,2}(?:\.\d{1,2})?)%", re.ASCII)
_CODE = re.compile(r"[a-z][a-z0-9_]{0,99}", re.ASCII)


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

    def is_reached(self, measured: "BrakeCounts") -> bool:
        """Return whether the batch is to be paused."""
        if percentage := _PERCENTAGE.fullmatch(self.stop_after_errors):
            enough = measured.lines >= (self.stop_min_lines or 1)
            return enough and measured.errors * 100 > float(percentage[1]) * measured.lines
        return measured.errors >= int(self.stop_after_errors)

    def to_dict(self) -> dict[str, Any]:
        """Return the brake as it is stored."""
        return asdict(self) | {"stop_ignore_codes": list(self.stop_ignore_codes)}


@dataclass(frozen=True, slots=True)
class BrakeCounts:
    """What a brake counts at this moment."""

    lines: int
    errors: int


#: What brakes a batch that says nothing about it: nothing, or for imports a mapping that is wrong.
NO_BRAKE = Brake(stop_after_errors=OFF)
IMPORT_BRAKE = Brake(stop_after_errors="50%", stop_min_lines=200, stop_window_lines=200)


def usual_brake(mode: BatchMode) -> Brake:
    """Return the brake of a batch that was not told otherwise. A rehearsal is to show every error."""
    return IMPORT_BRAKE if mode is BatchMode.IMPORT else NO_BRAKE


def read_brake(
    *,
    stop_after_errors: str | None = None,
    stop_min_lines: int | None = None,
    stop_window_lines: int | None = None,
    stop_ignore_codes: Sequence[str] = (),
) -> Brake | None:
    """Return the brake that is asked for, or None if nothing is said about it.

    Raise RequestFailedValidationError if the parts are not valid, or do not fit together.
    """
    others = {"stop_min_lines": stop_min_lines, "stop_window_lines": stop_window_lines}
    given = {name: number for name, number in others.items() if number is not None}
    names = [*given, *(["stop_ignore_codes"] if stop_ignore_codes else [])]
    errors = _faults_of_threshold(stop_after_errors, names)
    for name, number in given.items():
        if not 1 <= number <= MAX_WINDOW:
            errors.append(ErrorItem("out_of_range", f"Expected 1 to {MAX_WINDOW:,} lines.", name))
    if len(stop_ignore_codes) > MAX_IGNORED_CODES or not all(map(_CODE.fullmatch, stop_ignore_codes)):
        detail = f"Expected at most {MAX_IGNORED_CODES} error codes, as invalid_phone_number."
        errors.append(ErrorItem("invalid", detail, "stop_ignore_codes"))
    if errors:
        raise RequestFailedValidationError(errors=errors)
    if stop_after_errors is None:
        return None
    if stop_after_errors.endswith("%") and stop_min_lines is None:
        stop_min_lines = stop_window_lines or USUAL_MIN_LINES
    brake = Brake(
        stop_after_errors=stop_after_errors,
        stop_min_lines=stop_min_lines,
        stop_window_lines=stop_window_lines,
        stop_ignore_codes=tuple(stop_ignore_codes),
    )
    _require_reachable(brake)
    return brake


def _faults_of_threshold(threshold: str | None, others: Sequence[str]) -> list[ErrorItem]:
    attr = "stop_after_errors"
    if threshold is None or threshold == OFF:
        detail = "{} needs a number or a percentage of errors."
        return [ErrorItem("required", detail.format(name), attr) for name in others[:1]]
    if _PERCENTAGE.fullmatch(threshold):
        return []
    if not _NUMBER.fullmatch(threshold):
        detail = f"Expected a number from 1, a percentage from 0% to 99.99%, or {OFF}."
        return [ErrorItem("invalid", detail, attr)]
    if "stop_min_lines" in others:
        detail = "A number of errors counts from the first line on. Only a percentage takes stop_min_lines."
        return [ErrorItem("invalid", detail, "stop_min_lines")]
    return []


def _require_reachable(brake: Brake) -> None:
    """Raise RequestFailedValidationError if the window is too small for the brake ever to stop the batch."""
    window = brake.stop_window_lines
    number = int(brake.stop_after_errors) if _NUMBER.fullmatch(brake.stop_after_errors) else 0
    if window is not None and window < max(number, brake.stop_min_lines or 0):
        detail = "The window has fewer lines than the brake needs: it would never stop the batch."
        raise RequestFailedValidationError(errors=[ErrorItem("out_of_range", detail, "stop_window_lines")])


def stored_brake(values: dict[str, Any] | None) -> Brake:
    """Return a brake from `Batch.brake`."""
    if values is None:
        return NO_BRAKE
    return Brake(**(values | {"stop_ignore_codes": tuple(values["stop_ignore_codes"])}))


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
        details = {"reason": ERROR_THRESHOLD_REACHED, **asdict(measured), **brake.to_dict()}
        _record(session, AuditAction.BATCH_PAUSED, batch_id, organisation_id, details)
    return True


def measure(session: Session, batch_id: UUID, brake: Brake, since: datetime | None) -> BrakeCounts:
    """Return what the brake counts now: chunks that were worked on after `since` (None: all)."""
    values = {
        "batch_id": batch_id,
        "since": since,
        "window": brake.stop_window_lines,
        "ignored": list(brake.stop_ignore_codes),
    }
    row = session.execute(_MEASURE, values).one()
    return BrakeCounts(int(row.lines), int(row.errors))


def _record(
    session: Session, action: AuditAction, batch_id: UUID, organisation_id: int, details: dict[str, Any]
) -> None:
    record(session, action, "batch", batch_id, organisation_id=organisation_id, details=details)


# The key of `failures` has the codes of its lines, separated by blanks. A chunk has at least one line, so no
# window has more chunks than lines.
_MEASURE = text("""
    WITH recent AS MATERIALIZED (
        SELECT first_line, done, failures, worked_at FROM batch_chunk
        WHERE batch_id = :batch_id AND worked_at > coalesce(:since, '-infinity') AND done > 0
        ORDER BY worked_at DESC, first_line DESC LIMIT :window
    ), counted AS (
        SELECT done, failures, sum(done) OVER (ORDER BY worked_at DESC, first_line DESC) - done AS newer
        FROM recent
    ), measured AS MATERIALIZED (
        SELECT done, failures FROM counted WHERE :window IS NULL OR newer < :window
    )
    SELECT (SELECT coalesce(sum(done), 0) FROM measured) AS lines,
           (SELECT coalesce(sum(CAST(value AS bigint)), 0)
            FROM (SELECT failures FROM measured WHERE failures <> '{}') AS failed, jsonb_each_text(failures)
            WHERE NOT string_to_array(key, ' ') <@ CAST(:ignored AS text[])) AS errors
""").bindparams(
    bindparam("since", type_=DateTime(timezone=True)),
    bindparam("window", type_=BigInteger),
    bindparam("ignored", type_=ARRAY(Text)),
)
