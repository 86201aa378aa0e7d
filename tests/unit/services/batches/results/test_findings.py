"""What is wrong with a batch: its faulty paths, the lines and values behind them, the lines of an account."""

from typing import Any

import pytest
from sqlalchemy import null
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.pieces import LONGEST_PIECE
from migration_service.models import Batch, BatchLine
from migration_service.services.batches.results import findings
from migration_service.services.batches.results.counts import recount
from migration_service.services.batches.results.line_results import (
    ResultFilter,
    count_left_out,
    stream_failed_lines,
    value_at,
)
from migration_service.states import LineStatus
from support.factories import Customer, make_customer
from support.rows import add_chunk, make_batch
from unit.services.batches.batch_rows import without_indexes
from unit.services.undo.undo_rows import add_pending


def _item(code: str, attr: str | None, detail: str = "D") -> dict[str, Any]:
    return {"code": code, "attr": attr, "detail": detail}


def _line(batch: Batch, number: int, status: str = "FAILED", **values: Any) -> BatchLine:
    given = {"errors": null(), "warnings": null()} | values
    return BatchLine(batch_id=batch.id, line_number=number, status=status, **given)


@pytest.fixture
def batch(session: Session, customer: Customer) -> Batch:
    """A batch of six lines, and another one with one line more, whose lines nobody asks for."""
    batches = [make_batch(session, customer) for _ in range(2)]
    for batch in reversed(batches):
        session.add_all(
            [
                _line(
                    batch,
                    6,
                    external_account_number="6",
                    payload=b'{"a": [{"b": "x"}, {"b": "y"}], "c": 7}',
                    errors=[_item("one", "a.0.b", "Z"), _item("one", "a.1.b", "A")],
                ),
                _line(batch, 2, payload=b'{"a": [{"b": "y"}]}', errors=[_item("one", "a.0.b", "M")]),
                _line(batch, 3, payload=b'{"c": 7}', errors=[_item("one", "c"), _item("two", "c")]),
                _line(batch, 4, payload=b"{", errors=[_item("one", None)]),
                _line(
                    batch,
                    5,
                    "VALID",
                    payload=b'{"c": 8, "a": [{"bb": 1}]}',
                    service_account_number="A-5",
                    warnings=[_item("one", "c", "W"), _item("one", "a.0.bb", "W")],
                ),
                _line(batch, 9, "VALID"),
            ]
        )
        if batch is batches[1]:
            session.add(_line(batch, 8, errors=[_item("one", "a.0.b"), _item("two", "c")]))
        session.flush()
        add_chunk(session, batch, 1, 9)
        recount(session, batch.id)
    return batches[0]


def test_paths_are_those_of_one_code_the_most_frequent_first(session: Session, batch: Batch) -> None:
    assert findings.count_paths(session, batch.id, "one") == [
        ("a.*.b", 2, "A"),
        ("c", 1, "D"),
        (None, 1, "D"),
    ]
    assert findings.count_paths(session, batch.id, "two") == [("c", 1, "D")]
    assert findings.count_paths(session, batch.id, "one", warnings=True) == [
        ("a.*.bb", 1, "W"),
        ("c", 1, "W"),
    ]
    assert findings.count_paths(session, batch.id, "two", warnings=True) == []


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (ResultFilter(), [2, 3, 4, 5, 6, 9]),
        (ResultFilter(status=LineStatus.VALID), [5, 9]),
        (ResultFilter(line=4), [4]),
        (ResultFilter(code="one"), [2, 3, 4, 5, 6]),
        (ResultFilter(code="two"), [3]),
        (ResultFilter(path="a.*.b"), [2, 6]),
        (ResultFilter(path="a.1"), [6]),
        (ResultFilter(path="a"), [2, 5, 6]),
        (ResultFilter(path="c", code="one"), [3, 5]),
        (ResultFilter(path="c", code="one", status=LineStatus.FAILED), [3]),
        (ResultFilter(path="."), []),
    ],
)
def test_lines_are_wanted_by_status_number_code_and_path(
    session: Session, batch: Batch, wanted: ResultFilter, numbers: list[int]
) -> None:
    without_indexes(session)

    def numbers_of(**page: int) -> tuple[list[int], bool]:
        lines, follow = findings.list_lines(session, batch.id, wanted, **page)
        return [it.line_number for it in lines], follow

    assert numbers_of() == (numbers, False)
    assert numbers_of(after=4) == ([it for it in numbers if it > 4], False)
    assert numbers_of(limit=1) == (numbers[:1], len(numbers) > 1)


def test_a_line_has_its_payload_or_that_of_its_staged_account(
    session: Session, customer: Customer, batch: Batch
) -> None:
    (process_id,) = add_pending(session, customer, "7", payload={"c": "7"})
    add_pending(session, customer, "8", payload={"c": "8"})
    session.add(_line(batch, 7, account_import_process_id=process_id))
    session.flush()

    def find(number: int) -> tuple[Any, str | None]:
        found = findings.find_line(session, batch.id, number)
        assert found is not None
        assert found.line.line_number == number
        return found.payload, found.text

    assert find(3) == ({"c": 7}, None)
    assert find(4) == (None, "{")
    assert find(7) == ({"c": "7"}, None)
    assert find(9) == (None, None)
    assert findings.find_line(session, batch.id, 1) is None


def test_lines_of_an_account_are_listed_the_newest_batch_first(
    session: Session, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    older = make_batch(session, customer, name="older", mode="stage")
    newer = make_batch(session, customer, name="newer", kind="notes")
    theirs = make_batch(session, make_customer(sessions))
    for batch in (theirs, newer, older):
        for number in (8, 3):
            chunk_line = 1 if batch is newer else None
            line = _line(batch, number, external_account_number="1", chunk_line=chunk_line)
            session.add(line)
        session.add(_line(batch, 5, external_account_number="2"))
    session.add(_line(older, 9, "STAGED", external_account_number="1", errors=[_item("e", "a")]))
    session.flush()
    without_indexes(session)
    found = findings.list_lines_of_account(session, older.import_supplier_id, "1")
    assert [(it["batch_id"], it["line_number"]) for it in found] == [
        (newer.id, 3),
        (newer.id, 8),
        (older.id, 3),
        (older.id, 8),
        (older.id, 9),
    ]
    assert (found[0]["batch_name"], found[0]["kind"], found[0]["mode"]) == ("newer", "notes", "stage")
    assert (found[4]["batch_name"], found[4]["kind"], found[4]["mode"]) == ("older", "accounts", "stage")
    assert (found[4]["status"], found[4]["errors"], found[4]["warnings"]) == ("STAGED", [_item("e", "a")], [])
    assert found[0]["errors"] == []
    for limit in (1, 3):
        limited = findings.list_lines_of_account(session, older.import_supplier_id, "1", limit=limit)
        assert limited == found[:limit]


def test_failed_lines_are_streamed_as_they_were_sent(
    sessions: sessionmaker[Session], session: Session, customer: Customer, batch: Batch
) -> None:
    (process_id,) = add_pending(session, customer, "7", payload={"c": "7"})
    long = bytes(range(32, 127)) * 9_000
    session.add_all(
        [
            _line(batch, 7, account_import_process_id=process_id),
            _line(batch, 8, payload=b"repeated", errors=[_item("duplicate_line_in_batch", None)]),
            _line(batch, 10),
            *(_line(batch, number, payload=b"%d" % number) for number in range(11, 71)),
            _line(batch, 71, payload=long),
            _line(batch, 72, payload=b"72"),
        ]
    )
    session.commit()
    pieces = [*stream_failed_lines(sessions, batch.id)]
    assert max(map(len, pieces)) <= LONGEST_PIECE
    lines = b"".join(pieces).splitlines()
    assert count_left_out(session, batch.id) == 2
    assert lines[:5] == [
        b'{"a": [{"b": "y"}]}',
        b'{"c": 7}',
        b"{",
        b'{"a": [{"b": "x"}, {"b": "y"}], "c": 7}',
        b'{"c": "7"}',
    ]
    assert lines[5:] == [*(b"%d" % number for number in range(11, 71)), long, b"72"]
    only = ResultFilter(code="two", status=LineStatus.VALID)
    assert b"".join(stream_failed_lines(sessions, batch.id, only)) == b'{"c": 7}\n'


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a", "x"),
        ("b.0", "1"),
        ("b.1", '{"c":true}'),
        ("b.1.c", "true"),
        ("b.2", None),
        ("b.-1", None),
        ("b.c", None),
        ("a.0", None),
        ("d.0", "y"),
        (None, None),
        ("long", "x" * 200),
        ("longer", "x" * 200 + "..."),
    ],
)
def test_the_value_at_a_path_is_shown_shortened(path: str | None, value: str | None) -> None:
    payload = {"a": "x", "b": [1, {"c": True}], "d": {"0": "y"}, "long": "x" * 200, "longer": "x" * 201}
    assert value_at(payload, path) == value
