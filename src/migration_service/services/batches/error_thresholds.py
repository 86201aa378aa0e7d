"""Error thresholds: a batch with too many errors is paused before it does more harm.

Selected warnings can count as errors. A line that fails and has such a warning counts once.

The threshold is checked before a worker starts lines of the batch, so a worker finishes at most its current
chunk. The counts are sums over whole chunks (`counts.recount`). Resuming or retrying a batch resets them:
whoever did it has seen the errors, so only chunks processed since then count.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, DateTime, Text, bindparam, text
from sqlalchemy.orm import Session

from migration_payloads.rules.added_data import ADDED_DATA_RULES
from migration_payloads.rules.catalogue import RULES
from migration_payloads.rules.rule import Severity
from migration_payloads.schemas.base import unknown_word
from migration_payloads.schemas.field_codes import FIELD_CODES
from migration_service import errors
from migration_service.models import Batch
from migration_service.schemas.events import EventType
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.states import ERROR_THRESHOLD_REACHED, pause_for
from migration_service.services.events import recording as events
from migration_service.states import BatchMode, BatchState

#: The value of `stop_after_errors` for a batch without an error threshold.
OFF = "off"

#: The pattern of a percentage.
_PERCENTAGE = re.compile(r"(\d{1,2}(?:\.\d{1,2})?)%", re.ASCII)
_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)
#: The largest window, and the largest number of lines before a percentage applies.
MAX_WINDOW = 10_000
#: The codes that an error threshold may ignore or count.
MAX_IGNORED_CODES = 50
#: The default number of lines before a percentage of the whole batch applies.
USUAL_MIN_LINES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorThreshold:
    """The error threshold of a batch. The names are those of the interface."""

    #: A number of failed lines, a percentage such as `50%`, or OFF. Reaching a number pauses the batch; a
    #: percentage must be exceeded.
    stop_after_errors: str
    #: The number of lines before a percentage applies. None if the threshold is a number.
    stop_min_lines: int | None = None
    #: Only the most recently processed chunks with this number of lines count, or all chunks if None.
    stop_window_lines: int | None = None
    #: Codes to ignore. A line that has no other errors does not count.
    stop_ignore_codes: tuple[str, ...] = ()
    #: Lines with one of these warnings also count.
    stop_count_warnings: tuple[str, ...] = ()

    def is_reached(self, measured: "ThresholdCounts") -> bool:
        """Return whether the counts pause the batch."""
        if percentage := _PERCENTAGE.fullmatch(self.stop_after_errors):
            enough = measured.lines >= (self.stop_min_lines or 1)
            return enough and measured.errors * 100 > float(percentage[1]) * measured.lines
        return measured.errors >= int(self.stop_after_errors)

    def to_dict(self) -> dict[str, Any]:
        """Return the stored and reported form, with every member."""
        lists = {"stop_ignore_codes": [*self.stop_ignore_codes]}
        return asdict(self) | lists | {"stop_count_warnings": [*self.stop_count_warnings]}


@dataclass(frozen=True, slots=True)
class ThresholdCounts:
    """The current counts of an error threshold."""

    lines: int
    errors: int


#: In a wave, a percentage of fewer lines is not meaningful.
_LEAST_LINES_OF_WAVE = 10

#: The defaults: no threshold, except that imports are paused if a mapping is evidently wrong.
NO_THRESHOLD = ErrorThreshold(stop_after_errors=OFF)
IMPORT_THRESHOLD = ErrorThreshold(stop_after_errors="50%", stop_min_lines=200, stop_window_lines=200)


#: When a batch is paused, in words: of a number or a percentage, of all lines or the last ones, and of a
#: percentage that applies before there are as many. The console translates them.
WORDS = {
    (False, False, False): "%(threshold)s lines failed",
    (False, True, False): "%(threshold)s of the last %(window)s lines failed",
    (True, False, True): "more than %(threshold)s of the lines failed, from %(least)s lines on",
    (True, True, False): "more than %(threshold)s of the last %(window)s lines failed",
    (
        True,
        True,
        True,
    ): "more than %(threshold)s of the last %(window)s lines failed, from %(least)s lines on",
}


def put_in_words(values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the words about a stored or reported error threshold, one of `WORDS`, and what they contain."""
    threshold, window = str(values["stop_after_errors"]), values["stop_window_lines"]
    least = values["stop_min_lines"] or 1
    is_share = threshold.endswith("%")
    words = WORDS[is_share, bool(window), is_share and (not window or least < window)]
    return words, {"threshold": threshold, "window": window, "least": least}


def usual_threshold(mode: BatchMode) -> ErrorThreshold:
    """Return the default error threshold of a batch. Rehearsals have none, to show every error."""
    return IMPORT_THRESHOLD if mode is BatchMode.IMPORT else NO_THRESHOLD


def fit_to_wave(threshold: ErrorThreshold, lines: int) -> ErrorThreshold:
    """Return the error threshold, adjusted so that it can be reached early in a wave of this size.

    A percentage applies after a fifth of the lines at the latest, but never before 10 lines.
    """
    if threshold.stop_min_lines is None:
        return threshold
    return replace(
        threshold, stop_min_lines=min(threshold.stop_min_lines, max(lines // 5, _LEAST_LINES_OF_WAVE))
    )


def stored_threshold(values: dict[str, Any] | None) -> ErrorThreshold:
    """Return the error threshold stored in `Batch.brake`."""
    if values is None:
        return NO_THRESHOLD
    lists = {name: tuple(values[name]) for name in ("stop_ignore_codes", "stop_count_warnings")}
    return ErrorThreshold(**(values | lists))


def threshold_to_store(threshold: ErrorThreshold) -> dict[str, Any] | None:
    """Return the value for `Batch.brake`, which is empty if the batch has no error threshold."""
    return None if threshold.stop_after_errors == OFF else threshold.to_dict()


def read_threshold(
    *,
    stop_after_errors: str | None = None,
    stop_min_lines: int | None = None,
    stop_window_lines: int | None = None,
    stop_ignore_codes: Sequence[str] = (),
    stop_count_warnings: Sequence[str] = (),
) -> ErrorThreshold | None:
    """Return the requested error threshold, or None. Raise RequestFailedValidationError if it is wrong."""
    others = {"stop_min_lines": stop_min_lines, "stop_window_lines": stop_window_lines}
    given = {name: number for name, number in others.items() if number is not None}
    lists = {"stop_ignore_codes": stop_ignore_codes, "stop_count_warnings": stop_count_warnings}
    names = [*given, *(name for name, codes in lists.items() if codes)]
    faults = _faults_of_threshold(stop_after_errors, names)
    out_of_range = (name for name, number in given.items() if not 1 <= number <= MAX_WINDOW)
    faults += [
        errors.ErrorItem("out_of_range", f"Expected 1 to {MAX_WINDOW:,} lines.", it) for it in out_of_range
    ]
    faults += _faults_of_codes(stop_ignore_codes, known_errors(), "code of an error", "stop_ignore_codes")
    faults += _faults_of_codes(
        stop_count_warnings, known_warnings(), "code of a warning", "stop_count_warnings"
    )
    if faults:
        raise errors.RequestFailedValidationError(errors=faults)
    if stop_after_errors is None:
        return None
    if stop_after_errors.endswith("%") and stop_min_lines is None:
        stop_min_lines = stop_window_lines or USUAL_MIN_LINES
    number = int(stop_after_errors) if _NUMBER.fullmatch(stop_after_errors) else 0
    if stop_window_lines is not None and stop_window_lines < max(number, stop_min_lines or 0):
        detail = (
            "The window has fewer lines than the error threshold needs, so it would never pause the batch."
        )
        raise errors.RequestFailedValidationError(
            errors=[errors.ErrorItem("out_of_range", detail, "stop_window_lines")]
        )
    return ErrorThreshold(
        stop_after_errors=stop_after_errors,
        stop_min_lines=stop_min_lines,
        stop_window_lines=stop_window_lines,
        stop_ignore_codes=tuple(stop_ignore_codes),
        stop_count_warnings=tuple(stop_count_warnings),
    )


def _faults_of_threshold(threshold: str | None, others: Sequence[str]) -> list[errors.ErrorItem]:
    attr = "stop_after_errors"
    if threshold is None or threshold == OFF:
        detail = "{} needs a number or a percentage of errors."
        return [errors.ErrorItem("required", detail.format(name), attr) for name in others[:1]]
    if _PERCENTAGE.fullmatch(threshold):
        return []
    if not _NUMBER.fullmatch(threshold):
        detail = f"Expected a number from 1, a percentage from 0% to 99.99%, or {OFF}."
        return [errors.ErrorItem("invalid", detail, attr)]
    if "stop_min_lines" in others:
        detail = "A number of errors counts from the first line on. Only a percentage takes stop_min_lines."
        return [errors.ErrorItem("invalid", detail, "stop_min_lines")]
    return []


def _faults_of_codes(
    codes: Sequence[str], known: Collection[str], what: str, attr: str
) -> list[errors.ErrorItem]:
    if len(codes) > MAX_IGNORED_CODES:
        return [errors.ErrorItem("invalid", f"Expected at most {MAX_IGNORED_CODES} codes.", attr)]
    return [unknown_word(code, known, what, attr) for code in dict.fromkeys(codes) if code not in known]


@cache
def known_errors() -> frozenset[str]:
    """Return the codes of all possible errors of a line. Any rule may be one, under the strict profile."""
    raised: list[type[errors.ServiceError]] = [errors.ServiceError]
    for error in raised:  # grows while it is read
        raised += error.__subclasses__()
    return frozenset(
        (*(rule.code for rule in RULES), *ADDED_DATA_RULES, *FIELD_CODES, *(it.code for it in raised))
    )


@cache
def known_warnings() -> frozenset[str]:
    """Return the codes of all possible warnings of a line."""
    rules = (rule.code for rule in RULES if rule.severity is not Severity.ERROR)
    of_lines = (error.code for error in errors.LineError.__subclasses__() if error.severity == "warning")
    return frozenset((*rules, *ADDED_DATA_RULES, *of_lines, "unknown_field"))


def set_threshold(session: Session, batch: Batch, threshold: ErrorThreshold) -> None:
    """Replace the error threshold of a batch, even a running one. Raise BatchStateError if it was cancelled.

    Errors counted so far also count towards the new threshold.
    """
    session.refresh(batch, with_for_update=True)
    if batch.state == BatchState.CANCELLED:
        raise errors.BatchStateError("The batch was cancelled.")
    batch.brake = threshold_to_store(threshold)
    owner, details = batch.organisation_id, threshold.to_dict()
    record(
        session, AuditAction.BATCH_THRESHOLD_SET, "batch", batch.id, organisation_id=owner, details=details
    )


def apply_threshold(session: Session, batch_id: UUID, values: dict[str, Any], since: datetime | None) -> bool:
    """Pause the batch if its error threshold, `Batch.brake`, is reached. Return whether it is."""
    threshold = stored_threshold(values)
    measured = measure(session, batch_id, threshold, since)
    if not threshold.is_reached(measured):
        return False
    paused = pause_for(session, batch_id, ERROR_THRESHOLD_REACHED)
    if paused is not None:
        owner = paused.organisation_id
        codes = count_codes(session, batch_id, threshold, since)
        details = {
            "reason": ERROR_THRESHOLD_REACHED,
            **asdict(measured),
            "codes": codes,
            **threshold.to_dict(),
        }
        record(session, AuditAction.BATCH_PAUSED, "batch", batch_id, organisation_id=owner, details=details)
        events.record(
            session,
            EventType.BATCH_THRESHOLD_REACHED,
            {"batch_id": batch_id, **asdict(measured), "codes": codes},
            organisation_id=owner,
            import_supplier_id=paused.import_supplier_id,
        )
    return True


def measure(
    session: Session, batch_id: UUID, threshold: ErrorThreshold, since: datetime | None
) -> ThresholdCounts:
    """Return the counts over the chunks processed after `since`, or over all chunks if it is None."""
    row = session.execute(_MEASURE, _values(batch_id, threshold, since)).one()
    return ThresholdCounts(int(row.lines), int(row.errors))


def count_codes(
    session: Session, batch_id: UUID, threshold: ErrorThreshold, since: datetime | None
) -> dict[str, int]:
    """Return the number of counted lines for each code that counts, the most frequent first."""
    rows = session.execute(_CODES, _values(batch_id, threshold, since))
    return {row.code: int(row.lines) for row in rows}


def _values(batch_id: UUID, threshold: ErrorThreshold, since: datetime | None) -> dict[str, Any]:
    return {
        "batch_id": batch_id,
        "since": since,
        "window": threshold.stop_window_lines,
        "ignored": list(threshold.stop_ignore_codes),
        "counted": list(threshold.stop_count_warnings),
    }


# The key of `failures` is the codes of its lines, separated by spaces. The key of `warned` is the error codes
# of a FAILED line, `|`, and its warning codes. A chunk has at least one line, so a window never has more
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

# A failed line with a counted warning is counted as failed, unless its errors are ignored. The array of
# errors of a line that did not fail is empty, and so is contained in every array.
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
