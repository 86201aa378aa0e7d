"""Rows in memory, and for how long they are used, with a clock that stands still."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db import reference
from migration_service.db.reference import ReferenceReader

#: Has another answer each time that it is sent.
_ROW = "SELECT %(key)s::int AS key, clock_timestamp() AS sent_at"
_ENDING_ROW = "SELECT clock_timestamp() AS sent_at, %(left)s::float8 AS seconds_left"


class _Clock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def reader(sessions: sessionmaker[Session], clock: _Clock) -> ReferenceReader:
    return ReferenceReader(sessions, (_ROW, _ENDING_ROW), 1.0, clock)


def _read(reader: ReferenceReader, statement: str = _ROW, values: Mapping[str, Any] | None = None) -> Any:
    return reader.execute(statement, {"key": 1} if values is None else values)


def test_rows_are_used_for_a_second(reader: ReferenceReader, clock: _Clock) -> None:
    first = _read(reader)
    clock.seconds += 0.999
    assert _read(reader) == first
    clock.seconds += 0.001
    assert _read(reader) != first


def test_the_second_counts_from_the_beginning_of_the_look_up(
    sessions: sessionmaker[Session], reader: ReferenceReader, clock: _Clock
) -> None:
    def freeze(*_: object) -> None:
        clock.seconds += 1

    event.listen(sessions.kw["bind"], "checkin", freeze)
    try:
        first = _read(reader)
    finally:
        event.remove(sessions.kw["bind"], "checkin", freeze)
    assert _read(reader) != first


def test_rows_that_expire_earlier_are_not_used_longer(reader: ReferenceReader, clock: _Clock) -> None:
    first = _read(reader, _ENDING_ROW, {"left": 0.5})
    assert _read(reader, _ENDING_ROW, {"left": 0.5}) == first
    clock.seconds += 0.5
    assert _read(reader, _ENDING_ROW, {"left": 0.5}) != first
    kept = _read(reader, _ENDING_ROW, {"left": None})
    clock.seconds += 0.999
    assert _read(reader, _ENDING_ROW, {"left": None}) == kept


def test_what_is_not_found_is_looked_up_again(sessions: sessionmaker[Session], clock: _Clock) -> None:
    find = "SELECT id FROM organisation WHERE name = %(name)s"
    reader = ReferenceReader(sessions, (find,), 1.0, clock)
    assert reader.execute(find, {"name": "later"}) == []
    with sessions.begin() as session:
        session.connection().exec_driver_sql("INSERT INTO organisation (name) VALUES ('later')")
    assert len(reader.execute(find, {"name": "later"})) == 1


def test_other_statements_are_sent_each_time(reader: ReferenceReader) -> None:
    other = "SELECT clock_timestamp() AS sent_at"
    assert _read(reader, other, {}) != _read(reader, other, {})


def test_nothing_is_kept_for_zero_seconds(sessions: sessionmaker[Session], clock: _Clock) -> None:
    reader = ReferenceReader(sessions, (_ROW,), 0.0, clock)
    assert _read(reader) != _read(reader)


def test_who_revokes_waits_longer_than_rows_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(reference, "KEPT_SECONDS", 1.0)
    reference.wait_until_known()
    assert slept[0] > 1.0
