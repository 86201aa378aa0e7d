"""Rules for data added to an account: for notes (section 2.6), and the service's own warnings."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from migration_payloads.moments import write_moment
from migration_payloads.rules.dates import describe_placeholder, is_placeholder, placeholder_date
from migration_payloads.rules.names import find_wrong_encoding, wrong_encoding
from migration_payloads.rules.rule import Finding, Severity

#: The codes of the service's own warnings, which are not errors under any profile.
NOT_TAKEN = "existing_note_not_changed"
TRANSACTION_NOT_CHANGED = "existing_transaction_not_changed"
DATE_CHANGED = "transaction_date_changed"

#: The tolerance for a client's clock that is ahead.
_CLOCKS_DIFFER = timedelta(minutes=5)

#: Code -> meaning and remedy, for the documentation.
ADDED_DATA_RULES = {
    "unpin_without_pin": (
        "A note has an unpin_at and is not pinned.",
        "Send is_pinned true with it, or leave unpin_at out.",
    ),
    "note_unpin_at_earlier_than_creation_date": (
        "A note is unpinned before it was created.",
        "Correct unpin_at or created_at.",
    ),
    "note_created_in_future": (
        "A note has a created_at in the future.",
        "Correct created_at, or leave it out: then it is the time of the request.",
    ),
    NOT_TAKEN: (
        "A note that already exists was sent with documents or a pin that it does not have. "
        "They were not added. The warning is in the note's entry of the response, and never an error.",
        "Send another note with them if they are needed.",
    ),
    TRANSACTION_NOT_CHANGED: (
        "A transaction that already exists was sent with another value here. It was not changed. The warning "
        "is never an error.",
        "Check which value is right. If it is the one that you sent, ask the operator: a transaction of an "
        "account cannot be changed.",
    ),
    DATE_CHANGED: (
        "A transaction was dated outside the open statement period, and was added with another date. "
        "The warning has both dates. Under the strict profile it is no error. With "
        "`force_add_to_current_statement=false` such a transaction is refused.",
        "If the new date is wrong, correct the one that you send: the period may end before it, or a mapping "
        "may have a wrong century.",
    ),
}


def check_note(note: dict[str, Any], now: datetime, index: int) -> Iterator[Finding]:
    """Yield the findings of the rules in one note of a request. `now` is the default of created_at."""
    for field in ("created_at", "unpin_at"):
        if field in note and is_placeholder(note[field]):
            detail = describe_placeholder(note[field])
            yield Finding(("notes", index, field), placeholder_date.code, detail, Severity.WARNING)
    texts: list[tuple[tuple[str | int, ...], str]] = [(("body",), note.get("body", ""))]
    for place, document in enumerate(note.get("document_paths", ())):
        texts.append((("document_paths", place, "document_path"), document.get("document_path", "")))
    for path_of_text, text in texts:
        if fault := find_wrong_encoding(text):
            yield Finding(("notes", index, *path_of_text), wrong_encoding.code, fault, Severity.WARNING)
    created_at = note.get("created_at", now)
    if created_at > now + _CLOCKS_DIFFER:
        detail = f"The note is created at {write_moment(created_at)}, which is in the future."
        yield Finding(("notes", index, "created_at"), "note_created_in_future", detail, Severity.WARNING)
    unpin_at = note.get("unpin_at")
    if unpin_at is None:
        return
    path = ("notes", index, "unpin_at")
    if not note.get("is_pinned"):
        detail = "The note is not pinned: leave unpin_at out, or pin it."
        yield Finding(path, "unpin_without_pin", detail, Severity.WARNING)
    if unpin_at < created_at:
        detail = "The note is unpinned before it was created: correct unpin_at or created_at."
        yield Finding(path, "note_unpin_at_earlier_than_creation_date", detail, Severity.WARNING)
