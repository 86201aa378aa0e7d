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
    "request_too_large": (
        "The body is larger than the service accepts.",
        "Send less per request.",
    ),
    "unsupported_media_type": (
        "This operation does not accept bodies of this type.",
        "Send `Content-Type: application/json`. The only allowed `Content-Encoding` is `gzip`.",
    ),
}

#: The codes of a value that has the wrong form: meaning and remedy.
FIELD_CODES = {
    "required": ("A required field is missing.", "Add it."),
    "null": ("A field is null.", "Leave out optional fields that have no value."),
    "blank": ("A text is empty, but may not be.", "Give it a value, or leave the field out."),
    "invalid": ("A value has the wrong type, for example a number instead of a text.", "Read the detail."),
    "invalid_choice": ("A value is not one of the allowed words.", "Use one of the words in the detail."),
    "invalid_characters": (
        "A text has U+0000 or other control characters, or an identifier has lost a letter (U+FFFD).",
        "Remove them, and read the file in its own encoding.",
    ),
    "max_length": ("A text is too long.", "Shorten it to the length in the detail."),
    "not_a_list": ("A value is not a list.", "Send a list, even for one element."),
    "not_a_dict": ("A value is not an object.", "Send an object."),
    "empty": ("A list has no elements.", "Give at least one."),
    "out_of_range": (
        "A number is too large, or has too many digits.",
        "Send a number that the detail allows.",
    ),
    "page_size_out_of_range": (
        "The requested page of a list would have too many entries, or none.",
        "Request as many as the detail allows, and follow the `Link` header.",
    ),
    "idempotency_key_invalid": (
        "The `Idempotency-Key` is empty, too long, or contains unprintable characters.",
        "Send a key of 1 to 128 printable characters.",
    ),
    "invalid_date": ("A value is not a calendar date in the form YYYY-MM-DD.", "Correct it."),
    "invalid_datetime": ("A value is not a date and time in the form that the detail shows.", "Correct it."),
    "invalid_phone_number": (
        "A value is not a valid telephone number, either Dutch or of the country of its prefix.",
        "Correct it, or send an empty text.",
    ),
    "invalid_email_address": (
        "A value does not have the form of an e-mail address.",
        "Correct it, or leave it out.",
    ),
    "invalid_ean": ("An EAN has characters other than digits, or more than 18 digits.", "Correct it."),
    "invalid_document_path": (
        "A path is not a plain relative path below the document root.",
        "Send a relative path.",
    ),
    "note_body_or_document_path_not_found": (
        "A note has neither a body nor document_paths.",
        "Add one of them.",
    ),
    "unknown_field": (
        "The interface does not have this field. Within an account, and within the items of the other "
        "bodies, this is a warning under the lenient profile, and an error under the strict one. At the "
        "top level of the other bodies it is an error.",
        "Correct the name, or leave the field out.",
    ),
    "outer_spaces": ("An identifier starts or ends with a space.", "Remove it."),
    "not_normalised": ("An identifier is not in Unicode's normal form C.", "Send composed characters."),
    "compatibility_characters": (
        "An identifier has a compatibility form, for example a full-width digit, or a dash that looks like a "
        "hyphen.",
        "Send the plain character that the detail names.",
    ),
    "invisible_characters": ("An identifier has an invisible character.", "Remove it."),
    "bidirectional_characters": (
        "An identifier has a character that changes the direction of text.",
        "Remove it.",
    ),
    "too_deep": (
        "The body nests objects and lists too deeply.",
        "Send fewer levels. The detail has the limit.",
    ),
    "number_too_long": (
        "A number has too many digits, or too large an exponent.",
        "Send a number within the limits of the detail.",
    ),
    "document_too_long": (
        "A GraphQL document has too many tokens or comments.",
        "Send only the mutation that obtains tokens.",
    ),
    "too_many_items": ("A list has too many items.", "Send fewer, or use several requests."),
    "too_many_errors": (
        "There are more errors or warnings than a response lists.",
        "Correct what is listed, and send the body again.",
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


def require_known_code(code: str | None) -> None:
    """Raise RequestFailedValidationError if no response and no line can have this code."""
    if code is not None and code not in known_codes():
        error = unknown_word(code, known_codes(), "code of an error or a warning", "code")
        raise errors.RequestFailedValidationError(errors=[error])


def _all_subclasses(error: type[errors.ServiceError]) -> list[type[errors.ServiceError]]:
    found = []
    for below in error.__subclasses__():
        found += [below, *_all_subclasses(below)]
    return found
