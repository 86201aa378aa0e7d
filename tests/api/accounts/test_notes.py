"""Sections 2.6 and 4.8: notes are added to accounts that exist, each once."""

from datetime import UTC, datetime
from typing import Any

import pytest

from support.factories import json_of
from support.imported_account import ImportedAccount

SUCCESS, EXISTS = "NOTE_CREATION_SUCCESS", "NOTE_ALREADY_EXISTS"
MOMENT = "2025-11-03T09:30:00Z"


def _statuses(answer: Any) -> list[str]:
    assert answer.status_code == 201, answer.text
    return [result["status"] for result in answer.json]


def _document(path: str) -> dict[str, str]:
    return {"document_path": path}


def test_a_note_without_created_at_gets_the_current_time(account: ImportedAccount) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    answer = account.post_notes({"body": "now"})
    created_at = datetime.fromisoformat(answer.json[0]["created_at"])  # type: ignore[index]
    assert before <= created_at <= datetime.now(UTC)
    assert account.notes()[0]["created_at"] == created_at


@pytest.mark.parametrize(
    ("on_the_account", "posted", "status"),
    [
        ({"body": "a"}, {"body": "a"}, EXISTS),
        ({"body": "a", "created_at": MOMENT}, {"body": "a"}, EXISTS),
        (
            {"body": "a", "created_at": MOMENT},
            {"body": "a", "created_at": "2025-11-03T10:30:00+01:00"},
            EXISTS,
        ),
        ({"body": "a", "created_at": MOMENT}, {"body": "a", "created_at": "2025-11-03T09:30:01Z"}, SUCCESS),
        ({"body": "a"}, {"body": "a", "created_at": MOMENT}, SUCCESS),
        ({"body": "a"}, {"body": "a", "is_pinned": True}, EXISTS),
        (
            {"document_paths": [_document("x"), _document("y")]},
            {"document_paths": [_document("y"), _document("x")]},
            EXISTS,
        ),
        ({"document_paths": [_document("x")]}, {"document_paths": [_document("y")]}, SUCCESS),
        ({"document_paths": [_document("x")]}, {"body": "x"}, SUCCESS),
        ({"document_paths": [_document("x")]}, {"body": "", "document_paths": [_document("x")]}, EXISTS),
    ],
)
def test_a_note_equals_one_with_the_same_body_and_created_at(
    account: ImportedAccount, on_the_account: Any, posted: Any, status: str
) -> None:
    assert _statuses(account.post_notes(on_the_account)) == [SUCCESS]
    assert _statuses(account.post_notes(posted)) == [status]
    assert len(account.notes()) == (1 if status == EXISTS else 2)


def test_what_an_answer_says_of_a_note_can_be_sent_back(account: ImportedAccount) -> None:
    sent = {
        "0001-01-01T00:00:00.5Z": "0001-01-01T00:00:00Z",
        "0800-02-03T04:05:06Z": "0800-02-03T04:05:06Z",
        "2026-01-15T09:30:00.999999+01:00": "2026-01-15T08:30:00Z",
    }
    for moment, told in sent.items():
        for created_at, status in ((moment, SUCCESS), (moment, EXISTS), (told, EXISTS)):
            answer = account.post_notes({"body": f"at {moment}", "created_at": created_at})
            assert [(it["created_at"], it["status"]) for it in json_of(answer)] == [(told, status)]
    assert len(account.notes()) == len(sent)


def test_documents_are_resolved_below_the_root_of_the_supplier(account: ImportedAccount) -> None:
    account.post_notes({"body": "with a letter", "document_paths": [_document("letters/één.pdf")]})
    (note,) = account.notes()
    assert note["documents"] == [
        {
            "document_path": "letters/één.pdf",
            "document_location": f"s3://bucket/{account.supplier.code}/letters/één.pdf",
        }
    ]


@pytest.mark.parametrize(
    ("posted", "lost"),
    [
        ({"document_paths": [_document("x"), _document("y")]}, ["document_paths"]),
        ({"is_pinned": True}, ["is_pinned"]),
        ({"is_pinned": True, "unpin_at": "2199-01-02T00:00:00Z"}, ["is_pinned", "unpin_at"]),
        ({}, []),
    ],
)
def test_a_result_warns_that_an_existing_note_was_not_changed(
    account: ImportedAccount, posted: dict[str, Any], lost: list[str]
) -> None:
    account.post_notes({"body": "a", "document_paths": [_document("x")]})
    answer = account.post_notes({"body": "b"}, {"body": "a", **posted})
    assert _statuses(answer) == [SUCCESS, EXISTS]
    created, existing = answer.json  # type: ignore[misc]
    assert "warnings" not in created
    warnings = existing.pop("warnings", [])
    assert [(it["code"], it["attr"]) for it in warnings] == [
        ("existing_note_not_changed", f"notes.1.{name}") for name in lost
    ]
    assert existing.keys() == {"created_at", "body", "status"}
    (kept,) = [note for note in account.notes() if note["body"] == "a"]
    assert (kept["is_pinned"], [it["document_path"] for it in kept["documents"]]) == (False, ["x"])


def test_a_note_is_the_same_whatever_ends_its_lines(account: ImportedAccount) -> None:
    assert _statuses(account.post_notes({"body": "a\r\nb\rc"})) == [SUCCESS]
    assert _statuses(account.post_notes({"body": "a\nb\nc"})) == [EXISTS]
    assert [note["body"] for note in account.notes()] == ["a\r\nb\rc"]
