"""Every code that an answer can carry: its status, what it means, and what the client should do.

`docs/suppliers/errors.md` is written from it, and a test keeps it complete.
"""

import inspect
from dataclasses import dataclass

from migration_service import errors
from migration_service.blueprints.errors import HTTP_CODES, status_of
from migration_service.rules.catalogue import RULES
from migration_service.rules.notes import NOTE_RULES


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One code."""

    code: str
    #: HTTP status, or how a rule's finding is taken.
    status: str
    meaning: str
    remedy: str


#: What the client should do about an error that a whole request is answered with.
REMEDIES = {
    "account_already_imported": "Nothing: the body has the account's two numbers.",
    "account_creation_failed": "Read the detail; stage corrected data, or process again.",
    "account_failed_validation": "Correct what `errors` lists, and send the payload again.",
    "account_import_in_progress": "Wait for the status endpoint to say something else.",
    "account_marked_to_skip": "Leave the account out, or ask the operator to unskip it.",
    "account_not_found": "Check the supplier and the number; create the account first.",
    "account_not_staged": "Stage the account, then process it.",
    "api_key_not_found": "Check the prefix with `migration-service api-keys list`.",
    "authentication_failed": "Obtain a new token and send the request again.",
    "batch_file_unreadable": "Correct the file, and send all of it again.",
    "batch_not_found": "Check the id of the batch.",
    "batch_state_conflict": "Look at the batch's state first.",
    "concurrency_limit_reached": "Send the same request again after the seconds of `Retry-After`.",
    "dry_run_succeeded": "Nothing: process without `dry_run` when you want the account.",
    "duplicate_line_in_batch": "Nothing, if the lines are alike: the first one counts.",
    "error": "Send it again later; tell the operator the `X-Request-ID` if it stays.",
    "historical_statement_already_exists": "Give it a statement_id of its own; nothing was added.",
    "import_supplier_complete": "Stop: no more accounts are taken from this supplier.",
    "idempotency_key_reused": "Use a new key for another file.",
    "import_supplier_mismatch": "Send the line in a batch of its own supplier.",
    "import_supplier_not_found": "Check the code, and that the token is of the organisation that owns it.",
    "import_supplier_paused": "Wait until the operator resumes the supplier.",
    "invalid": "Read the detail.",
    "line_too_long": "Shorten the payload.",
    "method_not_allowed": "Use a method that the `Allow` header lists.",
    "name_invalid": "Choose another name.",
    "name_taken": "Choose another name, or use what exists.",
    "not_authenticated": "Send `Authorization: Token <token>`.",
    "not_found": "Check the path.",
    "operations_team_not_found": "Ask the operator for the name of the team.",
    "organisation_not_found": "Check the name with `migration-service organisations list`.",
    "parse_error": "Send JSON in UTF-8.",
    "payment_instruction_rejected": "Do not send it again unchanged: the vendor does not accept it.",
    "payment_vendor_invalid": "Correct the address, or the name of the variable, that the detail names.",
    "payment_vendor_not_found": "Ask the operator for the vendor's name.",
    "payment_vendor_unavailable": "Send the same request again later.",
    "payment_vendor_unreachable": "Do not send it again unchanged: the operator must mend the vendor.",
    "request_failed_validation": "Correct what `errors` lists, and send the request again.",
    "request_timeout": "Send the same request again, faster: something on the way holds it up.",
    "request_too_large": "Send less at once.",
    "service_unavailable": "Send the same request again after the seconds of `Retry-After`.",
    "throttled": "Wait, then obtain a token with the right key.",
    "transaction_id_already_used": "Give it a transaction_id of its own, or leave it out if it is a repeat.",
    "transaction_outside_open_period": "Correct the date, or let it be moved: "
    "`force_add_to_current_statement=true`.",
    "unsupported_media_type": "Send `Content-Type: application/json`, without `Content-Encoding`.",
}

#: What a value of the wrong form is answered with: meaning and remedy.
FIELD_CODES = {
    "required": ("A field that must be there is missing.", "Add it."),
    "null": ("A field is null.", "Leave optional fields out altogether."),
    "blank": ("Text is empty where it must not be.", "Fill it in, or leave the field out."),
    "invalid": ("A value of the wrong kind: a number where text belongs, for example.", "Read the detail."),
    "invalid_choice": ("A word that is not one of the list.", "Use a word that the detail lists."),
    "invalid_characters": ("Text with U+0000 or control characters.", "Remove them."),
    "max_length": ("Text that is too long.", "Shorten it to what the detail says."),
    "not_a_list": ("Something else where a list belongs.", "Send a list, if only of one."),
    "not_a_dict": ("Something else where an object belongs.", "Send an object."),
    "empty": ("A list without elements.", "Give at least one."),
    "out_of_range": ("A number too large, or with too many digits.", "Send what the detail allows."),
    "invalid_date": ("Not a date of the calendar, as YYYY-MM-DD.", "Correct it."),
    "invalid_datetime": ("Not a moment in the form that the detail shows.", "Correct it."),
    "invalid_phone_number": (
        "Not a telephone number of its country; the Netherlands without a prefix.",
        "Correct it, or send an empty text.",
    ),
    "invalid_email_address": ("Not the form of an e-mail address.", "Correct it, or leave it out."),
    "invalid_ean": ("An EAN has digits only, at most 18.", "Correct it."),
    "invalid_document_path": ("A path that is not plainly below the document root.", "Send a relative path."),
    "note_body_or_document_path_not_found": ("A note with neither a body nor document_paths.", "Add one."),
    "unknown_field": ("Under the strict profile: a field that the interface does not have.", "Leave it out."),
}


def request_errors() -> list[CatalogueEntry]:
    """The codes that whole requests are answered with, by code."""
    entries: dict[str, CatalogueEntry] = {}
    for error in _all_subclasses(errors.ServiceError):
        status = str(status_of(error).value)
        known = entries.get(error.code)
        if known and status not in known.status:
            status = f"{known.status}, {status}"
        meaning = known.meaning if known else " ".join(str(inspect.getdoc(error)).split("\n\n")[0].split())
        entries[error.code] = CatalogueEntry(error.code, status, meaning, REMEDIES[error.code])
    for http_status, code in HTTP_CODES.items():
        if code not in entries:
            meaning = _HTTP_MEANINGS[code]
            entries[code] = CatalogueEntry(code, str(http_status), meaning, REMEDIES[code])
    meaning = "Something that nobody expected; nothing was changed."
    entries["error"] = CatalogueEntry("error", "500", meaning, REMEDIES["error"])
    return sorted(entries.values(), key=lambda entry: entry.code)


_HTTP_MEANINGS = {
    "line_too_long": "Shorten the payload.",
    "method_not_allowed": "The path does not know this method.",
    "request_timeout": "The body did not arrive in time.",
    "request_too_large": "The body is larger than the service reads.",
    "unsupported_media_type": "The body is not of a kind that this operation reads.",
}


def field_errors() -> list[CatalogueEntry]:
    """The codes of values that have the wrong form."""
    return [CatalogueEntry(code, "error", *texts) for code, texts in FIELD_CODES.items()]


def rule_errors() -> list[CatalogueEntry]:
    """The codes of the rules, in their order."""
    return [CatalogueEntry(rule.code, rule.severity, rule.meaning, rule.remedy) for rule in RULES]


def note_errors() -> list[CatalogueEntry]:
    """The codes of the rules for notes."""
    return [CatalogueEntry(code, "warning", *texts) for code, texts in NOTE_RULES.items()]


def _all_subclasses(error: type[errors.ServiceError]) -> list[type[errors.ServiceError]]:
    found = []
    for below in error.__subclasses__():
        found += [below, *_all_subclasses(below)]
    return found
