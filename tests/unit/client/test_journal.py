"""The journal of a command: whatever a killed process or a full disk leaves of it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from migration_service_client import Client
from migration_service_client.command import listen
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.journal import Journal, Record, read_journal
from migration_service_client.command.runs import Runs
from migration_service_client.models import FeedEvent
from support.disks import disk_full_at

RECORDS = [{"line_number": number, "text": "ü\ud800\n"} for number in range(1, 4)]


def records(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    read_journal(path, "send", found.append)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with the records."""
    path = tmp_path / "book.ndjson.journal"
    with Journal(path, "send", lambda _: None) as journal:
        for record in RECORDS:
            journal.append(record)
    return path


def test_a_journal_that_was_cut_off_anywhere_has_its_whole_lines_and_goes_on(path: Path) -> None:
    content = path.read_bytes()
    ends = [number for number, byte in enumerate(content, 1) if byte == ord("\n")]
    for size in range(len(content)):
        path.write_bytes(content[:size])
        whole = RECORDS[: sum(end <= size for end in ends[1:])]
        found: list[dict[str, Any]] = []
        with Journal(path, "send", found.append) as journal:
            assert found == whole
            assert journal.is_torn == (size not in [0, *ends])
            journal.append({"line_number": 9})
        assert records(path) == [*whole, {"line_number": 9}]


def test_what_has_to_survive_a_power_failure_is_on_the_disk(path: Path) -> None:
    with Journal(path, "send", lambda _: None) as journal, patch.object(os, "fsync") as synced:
        journal.append({"line_number": 9})
        assert not synced.called
        journal.append({"line_number": 10}, to_disk=True)
        assert synced.call_count == 1


def test_one_process_has_a_journal(path: Path) -> None:
    with Journal(path, "send", lambda _: None) as journal:
        with pytest.raises(
            CannotRunError, match=r"Another migration-client is using .*book\.ndjson\.journal"
        ):
            Journal(path, "send", lambda _: None)
        journal.replace(RECORDS[2:])
        with pytest.raises(CannotRunError, match="Another migration-client is using"):
            Journal(path, "send", lambda _: None)
        journal.append(RECORDS[0])
    assert records(path) == [RECORDS[2], RECORDS[0]]


def test_a_record_for_which_the_disk_has_no_room_is_not_there_in_part(path: Path) -> None:
    content = path.read_bytes()
    with Journal(path, "send", lambda _: None) as journal:
        for room in range(40):
            with disk_full_at(len(content) + room), pytest.raises(CannotRunError, match="cannot be written"):
                journal.append({"line_number": 9, "text": "x" * 40})
            assert path.read_bytes() == content
        with disk_full_at(10), pytest.raises(CannotRunError, match="cannot be written"):
            journal.replace(RECORDS)
        journal.append({"line_number": 9})
    assert records(path) == [*RECORDS, {"line_number": 9}]


def order(**options: str) -> dict[str, Any]:
    return {"file": "book.ndjson", "sha256": "1", "url": "u", "mode": "import"} | options


def test_a_run_goes_on_and_a_finished_one_is_not_begun_again(tmp_path: Path) -> None:
    def begin(*, again: bool = False, record: Record | None = None, **options: str) -> tuple[bool, str]:
        runs = Runs()
        with Journal(tmp_path / "journal", "send", runs.add) as journal:
            run = runs.begin(journal, order(**options), again=again)
            had_ended = run.has_ended
            if record:
                journal.append(record)
        return had_ended, run.book

    ends: Record = {"ended": "COMPLETED"}
    first = begin()
    assert first == begin(record=ends) == (False, first[1])
    assert begin() == (True, first[1])
    assert begin(mode="validate", record=ends)[0] is False
    # The same keys as before, so that the service answers what it has answered.
    assert begin(record=ends) == first
    second = begin(again=True)
    assert second == (False, second[1]) != first
    # An interrupted run goes on with the same command, whether or not that asks for another run.
    assert second == begin() == begin(again=True, record=ends)
    assert begin(again=True)[1] != second[1]


def test_a_run_that_was_refused_is_begun_otherwise_or_again(tmp_path: Path) -> None:
    books = []
    for options in ({"team": "A"}, {"team": "B"}, {"team": "B"}):
        runs = Runs()
        with Journal(tmp_path / "journal", "send", runs.add) as journal:
            books.append(runs.begin(journal, order(**options), again=False).book)
            journal.append({"refused": "operations_team_not_found"})
    assert books[0] != books[1] == books[2]
    # What goes on after that may have been sent: it is not begun otherwise.
    with Journal(tmp_path / "journal", "send", (runs := Runs()).add) as journal:
        runs.begin(journal, order(team="B"), again=False)
    with (
        Journal(tmp_path / "journal", "send", (runs := Runs()).add) as journal,
        pytest.raises(CannotRunError, match="begun otherwise"),
    ):
        runs.begin(journal, order(team="C"), again=False)


def test_keys_depend_on_what_is_sent_and_not_on_where_it_is(tmp_path: Path) -> None:
    def book(name: str, **options: str) -> str:
        runs = Runs()
        with Journal(tmp_path / name, "send", runs.add) as journal:
            return runs.begin(journal, order(**options), again=False).book

    assert book("1") == book("2", url="other", file="renamed")
    assert len({book("3"), book("4", sha256="2"), book("5", mode="stage")}) == 3


def test_listen_goes_on_after_what_a_shortened_journal_has() -> None:
    at, position, again = datetime(2026, 3, 1, tzinfo=UTC), listen._Position(), listen._Position()
    records = [{"cursor": "a", "since": at.isoformat()}, *({"cursor": it, "id": it} for it in "bc")]
    for record in records:
        position.add(record)
    for record in position.shortened():
        again.add(record)
    listener = listen._Listener(Client("http://localhost", "the-key"), None, again, None, None, as_json=True)
    for id_, age in (("b", 0), ("c", 0), ("d", 1), ("e", 0)):
        moment = at - timedelta(seconds=age)
        event: dict[str, Any] = {
            "type": "t",
            "created_at": moment,
            "import_supplier": None,
            "data": {},
            "cursor": id_,
        }
        listener._handle(FeedEvent(id=id_, **event))
    assert (listener.seen, again.cursor) == (1, "e"), "d is too old"
