"""Rules for a note (section 2.6). They are warnings, and errors under the strict profile."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from migration_service.rules.rule import Finding, Severity

#: The code of the warning that the service itself gives, in every profile.
NOT_TAKEN = "existing_note_not_changed"

#: Code -> what is wrong, and what the client should do, for the documentation.
NOTE_RULES = {
    "unpin_without_pin": (
        "A note has an unpin_at and is not pinned.",
        "Send is_pinned true with it, or leave unpin_at out.",
    ),
    "note_unpin_at_earlier_than_creation_date": (
        "A note is unpinned before it was created.",
        "Correct unpin_at or created_at.",
    ),
    NOT_TAKEN: (
        "A note that already exists was sent with documents or a pin that it does not have. "
        "They were not added. The warning is in the note's entry of the response, and never an error.",
        "Send another note with them if they are needed.",
    ),
}


def check_note(note: dict[str, Any], now: datetime, index: int) -> Iterator[Finding]:
    """Yield what the rules find in one note of a request. `now` is its created_at if it has none."""
    unpin_at = note.get("unpin_at")
    if unpin_at is None:
        return
    path = ("notes", index, "unpin_at")
    if not note.get("is_pinned"):
        detail = "The note is not pinned: leave unpin_at out, or pin it."
        yield Finding(path, "unpin_without_pin", detail, Severity.WARNING)
    if unpin_at < note.get("created_at", now):
        detail = "The note is unpinned before it was created: correct unpin_at or created_at."
        yield Finding(path, "note_unpin_at_earlier_than_creation_date", detail, Severity.WARNING)
