"""Every code that a response can have, with its status, its meaning and the remedy.

`docs/suppliers/errors.md` is generated from it, and a test keeps it complete.
"""

import inspect
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from migration_payloads.rules.added_data import ADDED_DATA_RULES
from migration_payloads.rules.catalogue import RULES
from migration_payloads.schemas.base import unknown_word
from migration_payloads.schemas.field_codes import FIELD_CODES
from migration_service import errors
from migration_service.blueprints.requests.errors import HTTP_CODES, status_of


class Place(StrEnum):
    """A place where a code is seen."""

    #: In the response to a request.
    ANSWER = "answer"
    #: On a line of a batch.
    LINE = "line"
    #: In the output of a command, or on a page of the console.
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One code."""

    code: str
    #: The HTTP status, or the severity for a line or a rule.
    status: str
    meaning: str
    remedy: str
    place: Place = Place.ANSWER


#: The codes that only Flask and the proxy return: meaning and remedy.
_HTTP_ERRORS = {
    "method_not_allowed": (
        "The path does not support this method.",
        "Use a method that the `Allow` header lists.",
    ),
    "length_required": (
        "The request does not state the length of its body.",
        "Send `Content-Length`, or send the request through the proxy, which takes a body in chunks.",
    ),
    "uri_too_long": (
        "The address of the request is longer than the service accepts.",
        "Shorten it. Use a cursor exactly as it is in the Link header.",
    ),
    "headers_too_large": (
        "The headers are larger or more numerous than the service accepts.",
        "Leave out headers that the interface does not describe.",
    ),
    "request_too_large": ("The body is larger than the service accepts.", "Send less per request."),
    "unsupported_media_type": (
        "This operation does not accept bodies of this type.",
        "Send `Content-Type: application/json`. The only allowed `Content-Encoding` is `gzip`.",
    ),
}


def meaning_of(error: type[errors.ServiceError]) -> str:
    """Return the meaning of an error, which is the first paragraph of its docstring."""
    return " ".join(str(inspect.getdoc(error)).split("\n\n")[0].split())


def request_errors() -> list[CatalogueEntry]:
    """Return the codes of failed requests, lines and commands, sorted by code."""
    entries: dict[str, CatalogueEntry] = {}
    for error in _all_subclasses(errors.ServiceError):
        place, status = _place_of(error)
        known = entries.get(error.code)
        if known and status not in known.status:
            status = f"{known.status}, {status}"
        meaning = known.meaning if known else meaning_of(error)
        entries[error.code] = CatalogueEntry(error.code, status, meaning, error.remedy, place)
    for http_status, code in HTTP_CODES.items():
        if code in _HTTP_ERRORS:
            entries[code] = CatalogueEntry(code, str(http_status), *_HTTP_ERRORS[code])
    meaning = "An unexpected error. Nothing was changed."
    entries["error"] = CatalogueEntry("error", "500", meaning, errors.ServiceError.remedy)
    return sorted(entries.values(), key=lambda entry: entry.code)


def _place_of(error: type[errors.ServiceError]) -> tuple[Place, str]:
    """Return the place of an error, and its status or severity there."""
    if issubclass(error, errors.LineError):
        return Place.LINE, error.severity
    place = Place.OPERATOR if issubclass(error, errors.OperatorError) else Place.ANSWER
    return place, str(status_of(error).value)


def field_errors() -> list[CatalogueEntry]:
    """Return the codes of values that have the wrong form."""
    return [CatalogueEntry(code, "error", *texts) for code, texts in FIELD_CODES.items()]


def rule_errors() -> list[CatalogueEntry]:
    """Return the codes of the rules, in the order of the rules."""
    return [CatalogueEntry(rule.code, rule.severity, rule.meaning, rule.remedy) for rule in RULES]


def added_data_errors() -> list[CatalogueEntry]:
    """Return the codes of the rules for added data only."""
    return [CatalogueEntry(code, "warning", *texts) for code, texts in ADDED_DATA_RULES.items()]


@cache
def known_codes() -> frozenset[str]:
    """Return every code that a response or a line can have."""
    entries = (*request_errors(), *field_errors(), *rule_errors(), *added_data_errors())
    return frozenset(entry.code for entry in entries)


def find_unknown_code(code: str | None) -> list[errors.ErrorItem]:
    """Return the error of a code that no response and no line can have."""
    if code is None or code in known_codes():
        return []
    return [unknown_word(code, known_codes(), "code of an error or a warning", "code")]


def _all_subclasses(error: type[errors.ServiceError]) -> list[type[errors.ServiceError]]:
    found = []
    for below in error.__subclasses__():
        found += [below, *_all_subclasses(below)]
    return found
