"""Notes of an account: how they are read, and what is said of a note that exists already."""

from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session

from migration_service.services.accounts.added_data import Addition, OpenAccount
from migration_service.services.accounts.notes import NoteStatus, add_notes_to_accounts, read_notes


def test_a_note_is_read_as_it_was_sent_and_is_pinned_until_its_time(
    session: Session, opened: OpenAccount
) -> None:
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    pinned = {"body": "pinned", "created_at": moment, "is_pinned": True, "unpin_at": tomorrow}
    over = {"body": "over", "created_at": moment, "is_pinned": True, "unpin_at": moment}
    plain = {"body": "plain", "created_at": moment - timedelta(days=1)}
    add_notes_to_accounts(session, [Addition(opened, {"notes": [over, plain, pinned]})])
    read = {"documents": [], "is_pinned": False, "unpin_at": None}
    assert read_notes(session, opened.id) == [read | pinned, read | plain, read | over | {"is_pinned": False}]


def test_what_an_existing_note_does_not_have_is_a_warning(session: Session, opened: OpenAccount) -> None:
    note = {"body": "the same"}
    posted = [note, note, note | {"is_pinned": False}, note | {"is_pinned": True}]
    (results,) = add_notes_to_accounts(session, [Addition(opened, {"notes": posted})])
    assert [it.status for it in results] == [NoteStatus.CREATED, *[NoteStatus.ALREADY_EXISTS] * 3]
    assert [[warning.attr for warning in it.warnings] for it in results] == [
        [],
        [],
        [],
        ["notes.3.is_pinned"],
    ]
