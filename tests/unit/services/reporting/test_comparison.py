"""What the comparison of two batches says of codes and accounts, from their lines and chunks."""

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch
from migration_service.services.reporting import comparison
from migration_service.services.reporting.comparison import (
    ComparedAccount,
    compare_batches,
    find_changed_accounts,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import AccountChange, CodeChange
from support.rows import add_chunk, build_line, make_batch, make_line

#: For each account its statuses in the two batches. None: it is not in the batch.
_STATUSES = {
    "newly broken": ("VALID", "FAILED"),
    "mended": ("FAILED", "VALID"),
    "still broken": ("FAILED", "FAILED"),
    "added broken": (None, "FAILED"),
    "added broken too": (None, "FAILED"),
    "removed broken": ("FAILED", None),
    "passed": ("VALID", "STAGED"),
    "passed too": ("VALID", "VALID"),
    "passed as well": ("VALID", "VALID"),
    "added": (None, "VALID"),
    "added too": (None, "VALID"),
    "removed": ("VALID", None),
    "undecided": ("PENDING", "FAILED"),
    "undecided too": ("FAILED", "DEFERRED"),
    "undecided in one": (None, "PENDING"),
    "undecided in the other": ("PENDING", None),
}


def _make_two(session: Session, known: KnownSupplier, kind: str) -> tuple[Batch, Batch]:
    """Insert the lines of these accounts, and others of a third batch, which is not compared.

    The lines of the first batch are in the order above, those of the second one in the reverse.
    """
    before, after, third = (make_batch(session, known, kind=kind) for _ in range(3))
    last = len(_STATUSES)
    lines = []
    for line, (number, statuses) in enumerate(_STATUSES.items(), 1):
        for batch, status, place in zip((before, after), statuses, (line, last - line), strict=True):
            if status:
                codes = [f"b{line}", f"a{line}", f"b{line}"] if status == "FAILED" else []
                lines.append(build_line(batch, place + 1, number, status, *codes))
        lines.append(build_line(third, line, number, "FAILED", "x"))
    for batch, unnumbered in ((before, 1), (after, 2), (third, 3)):
        lines += [build_line(batch, 30 + it, None, "FAILED", "parse_error") for it in range(unnumbered)]
    session.add_all(lines)
    session.flush()
    return before, after


def _line(number: str, batch: int) -> int | None:
    place = list(_STATUSES).index(number)
    if _STATUSES[number][batch] is None:
        return None
    return len(_STATUSES) - place if batch else place + 2


def _expect(number: str) -> ComparedAccount:
    index = list(_STATUSES).index(number) + 1
    codes = [[f"a{index}", f"b{index}"] if status == "FAILED" else [] for status in _STATUSES[number]]
    change = AccountChange(number.replace(" too", "").replace(" ", "_").upper())
    return ComparedAccount(number, change, _line(number, 0), codes[0], _line(number, 1), codes[1])


_AFTER = ["added broken too", "added broken", "still broken", "newly broken"]
_BEFORE = ["mended", "removed broken"]


@pytest.mark.parametrize("kind", ["accounts", "notes"])
def test_each_account_has_one_change(
    session: Session,
    within: sessionmaker[Session],
    known: KnownSupplier,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, after = _make_two(session, known, kind)
    found = compare_batches(session, before.id, after.id)
    assert (found["before"], found["after"]) == (before.id, after.id)
    assert found["accounts"] == {
        "newly_broken": 1,
        "mended": 1,
        "still_broken": 1,
        "added_broken": 2,
        "removed_broken": 1,
        "passed": 3,
        "added": 2,
        "removed": 1,
        "undecided": 4,
        "unnumbered_before": 1,
        "unnumbered_after": 2,
    }
    for page in (20_000, 1, 3):
        monkeypatch.setattr(comparison, "PAGE", page)
        changed = list(find_changed_accounts(within, before.id, after.id))
        assert changed == [_expect(number) for number in [*_AFTER, *_BEFORE]]


def test_a_line_that_repeats_a_number_says_nothing_about_the_account(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    before, after = (make_batch(session, known) for _ in range(2))
    make_line(session, before, 1, "1", "VALID")
    make_line(session, after, 1, "1", "FAILED", "invalid")
    for batch in (before, after):
        make_line(session, batch, 2, "1", "FAILED", "duplicate_line_in_batch")
    (found,) = find_changed_accounts(within, before.id, after.id)
    assert found == ComparedAccount("1", AccountChange.NEWLY_BROKEN, 1, [], 1, ["invalid"])
    accounts = compare_batches(session, before.id, after.id)["accounts"]
    assert [accounts[it] for it in ("newly_broken", "still_broken", "passed")] == [1, 0, 0]


def test_the_first_line_that_failed_stands_for_all_of_an_account(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    before, after = (make_batch(session, known, kind="notes") for _ in range(2))
    for batch, statuses in (
        (before, {5: "ADDED", 4: "ALREADY_ADDED"}),
        (after, {1: "ADDED", 2: "PENDING", 3: "FAILED", 4: "FAILED", 5: "ADDED"}),
    ):
        for line, status in statuses.items():
            make_line(session, batch, line, "1", status, *([f"e{line}"] if status == "FAILED" else []))
    make_line(session, before, 9, "2", "FAILED", "invalid")
    make_line(session, after, 8, "2", "DEFERRED")
    make_line(session, after, 9, "2", "ADDED")
    (found,) = find_changed_accounts(within, before.id, after.id)
    assert found == ComparedAccount("1", AccountChange.NEWLY_BROKEN, 4, [], 3, ["e3", "e4"])
    accounts = compare_batches(session, before.id, after.id)["accounts"]
    assert [accounts[it] for it in ("newly_broken", "undecided", "passed")] == [1, 1, 0]


def test_codes_are_summed_over_chunks_and_the_most_frequent_ones_come_first(
    session: Session, known: KnownSupplier
) -> None:
    before, after, third = (make_batch(session, known) for _ in range(3))
    for batch, line, errors, warnings in (
        (before, 1, {"went": 3, "grew": 1, "same": 2}, {"came": 9}),
        (before, 10, {"grew": 1, "shrank": 5, "more": 4}, {}),
        (after, 1, {"grew": 3, "same": 2}, {"came": 8, "also": 8}),
        (after, 10, {"came": 4, "shrank": 4, "more": 4}, {"new": 1}),
        (third, 1, {"same": 7}, {"unknown": 1}),
    ):
        add_chunk(session, batch, line, error_counts=errors, warning_counts=warnings)
    found = compare_batches(session, before.id, after.id)["codes"]
    expected = [
        ("shrank", 5, 4, CodeChange.SHRANK),
        ("came", 0, 4, CodeChange.CAME),
        ("more", 4, 4, CodeChange.SAME),
        ("grew", 2, 3, CodeChange.GREW),
        ("went", 3, 0, CodeChange.WENT),
        ("same", 2, 2, CodeChange.SAME),
    ]
    of_warnings = [
        ("came", 9, 8, CodeChange.SHRANK),
        ("also", 0, 8, CodeChange.CAME),
        ("new", 0, 1, CodeChange.CAME),
    ]
    assert [tuple(it.values()) for it in found] == [
        *(("error", *it) for it in expected),
        *(("warning", *it) for it in of_warnings),
    ]
