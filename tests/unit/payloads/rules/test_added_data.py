"""The rules for a note: when it is created and unpinned."""

from datetime import UTC, datetime, timedelta

import pytest

from migration_payloads.rules.added_data import check_note
from migration_payloads.rules.rule import Severity

_NOW = datetime(2025, 11, 3, 12, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
_TOO_EARLY = "note_unpin_at_earlier_than_creation_date"


def test_a_note_without_a_time_of_unpinning_is_fine() -> None:
    assert list(check_note({"body": "a"}, _NOW, 0)) == []


@pytest.mark.parametrize("created_at", [{}, {"created_at": _NOW}])
def test_a_note_may_be_unpinned_from_the_moment_on_at_which_it_is_created(
    created_at: dict[str, datetime],
) -> None:
    note = {"body": "a", "is_pinned": True, **created_at}
    now = _NOW if not created_at else _NOW + timedelta(days=1)
    assert list(check_note({**note, "unpin_at": _NOW}, now, 0)) == []
    [finding] = check_note({**note, "unpin_at": _NOW - _SECOND}, now, 2)
    assert (finding.attr, finding.code, finding.severity) == (
        "notes.2.unpin_at",
        _TOO_EARLY,
        Severity.WARNING,
    )


@pytest.mark.parametrize(
    ("ahead", "found"), [(timedelta(minutes=5), []), (timedelta(minutes=5, seconds=1), 1)]
)
def test_a_note_is_not_created_in_the_future_but_the_clock_of_a_client_may_be_fast(
    ahead: timedelta, found: object
) -> None:
    findings = list(check_note({"body": "a", "created_at": _NOW + ahead}, _NOW, 3))
    assert [(it.attr, it.code) for it in findings] == (
        [("notes.3.created_at", "note_created_in_future")] if found else []
    )


def test_a_time_that_stands_for_none_and_a_body_in_the_wrong_encoding_are_found() -> None:
    long_ago = datetime(1, 1, 1, tzinfo=UTC)
    note = {"body": "BÃ¼cher", "created_at": long_ago, "is_pinned": True, "unpin_at": long_ago}
    assert [(it.attr, it.code) for it in check_note(note, _NOW, 0)] == [
        ("notes.0.created_at", "placeholder_date"),
        ("notes.0.unpin_at", "placeholder_date"),
        ("notes.0.body", "wrong_encoding"),
    ]


def test_both_faults_of_a_note_are_found() -> None:
    findings = check_note({"body": "a", "unpin_at": _NOW - _SECOND}, _NOW, 0)
    assert [finding.code for finding in findings] == ["unpin_without_pin", _TOO_EARLY]
