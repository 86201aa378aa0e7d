"""Parsing and validation of the error threshold in a request, a command or a form."""

import re
from collections.abc import Collection, Sequence
from functools import cache

from migration_payloads.rules.added_data import ADDED_DATA_RULES
from migration_payloads.rules.catalogue import RULES
from migration_payloads.rules.rule import Severity
from migration_payloads.schemas.base import unknown_word
from migration_payloads.schemas.field_codes import FIELD_CODES
from migration_service.errors import ErrorItem, LineError, RequestFailedValidationError, ServiceError
from migration_service.services.batches.error_thresholds import OFF, PERCENTAGE, ErrorThreshold

#: The largest window, and the largest number of lines before a percentage applies.
MAX_WINDOW = 10_000
#: The codes that an error threshold may ignore or count.
MAX_IGNORED_CODES = 50
#: The default number of lines before a percentage of the whole batch applies.
USUAL_MIN_LINES = 200

_NUMBER = re.compile(r"[1-9]\d{0,8}", re.ASCII)


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
    errors = _faults_of_threshold(stop_after_errors, names)
    out_of_range = (name for name, number in given.items() if not 1 <= number <= MAX_WINDOW)
    errors += [ErrorItem("out_of_range", f"Expected 1 to {MAX_WINDOW:,} lines.", it) for it in out_of_range]
    errors += _faults_of_codes(stop_ignore_codes, known_errors(), "code of an error", "stop_ignore_codes")
    errors += _faults_of_codes(
        stop_count_warnings, known_warnings(), "code of a warning", "stop_count_warnings"
    )
    if errors:
        raise RequestFailedValidationError(errors=errors)
    if stop_after_errors is None:
        return None
    if stop_after_errors.endswith("%") and stop_min_lines is None:
        stop_min_lines = stop_window_lines or USUAL_MIN_LINES
    number = int(stop_after_errors) if _NUMBER.fullmatch(stop_after_errors) else 0
    if stop_window_lines is not None and stop_window_lines < max(number, stop_min_lines or 0):
        detail = (
            "The window has fewer lines than the error threshold needs, so it would never pause the batch."
        )
        raise RequestFailedValidationError(errors=[ErrorItem("out_of_range", detail, "stop_window_lines")])
    return ErrorThreshold(
        stop_after_errors=stop_after_errors,
        stop_min_lines=stop_min_lines,
        stop_window_lines=stop_window_lines,
        stop_ignore_codes=tuple(stop_ignore_codes),
        stop_count_warnings=tuple(stop_count_warnings),
    )


def _faults_of_threshold(threshold: str | None, others: Sequence[str]) -> list[ErrorItem]:
    attr = "stop_after_errors"
    if threshold is None or threshold == OFF:
        detail = "{} needs a number or a percentage of errors."
        return [ErrorItem("required", detail.format(name), attr) for name in others[:1]]
    if PERCENTAGE.fullmatch(threshold):
        return []
    if not _NUMBER.fullmatch(threshold):
        detail = f"Expected a number from 1, a percentage from 0% to 99.99%, or {OFF}."
        return [ErrorItem("invalid", detail, attr)]
    if "stop_min_lines" in others:
        detail = "A number of errors counts from the first line on. Only a percentage takes stop_min_lines."
        return [ErrorItem("invalid", detail, "stop_min_lines")]
    return []


def _faults_of_codes(codes: Sequence[str], known: Collection[str], what: str, attr: str) -> list[ErrorItem]:
    if len(codes) > MAX_IGNORED_CODES:
        return [ErrorItem("invalid", f"Expected at most {MAX_IGNORED_CODES} codes.", attr)]
    return [unknown_word(code, known, what, attr) for code in dict.fromkeys(codes) if code not in known]


@cache
def known_errors() -> frozenset[str]:
    """Return the codes of all possible errors of a line. Any rule may be one, under the strict profile."""
    raised: list[type[ServiceError]] = [ServiceError]
    for error in raised:  # grows while it is read
        raised += error.__subclasses__()
    return frozenset(
        (*(rule.code for rule in RULES), *ADDED_DATA_RULES, *FIELD_CODES, *(it.code for it in raised))
    )


@cache
def known_warnings() -> frozenset[str]:
    """Return the codes of all possible warnings of a line."""
    rules = (rule.code for rule in RULES if rule.severity is not Severity.ERROR)
    of_lines = (error.code for error in LineError.__subclasses__() if error.severity == "warning")
    return frozenset((*rules, *ADDED_DATA_RULES, *of_lines, "unknown_field"))
