"""What a new batch may be asked to do, and what it is stored with."""

import io
import json
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits, Line
from migration_payloads.profile import Profile
from migration_service.db.base import new_id
from migration_service.models import Batch, BatchChunk, BatchLine
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.services.batches.intake import upload
from migration_service.services.batches.intake.options import BatchOrder, record_order
from migration_service.services.batches.intake.ranges import RangeChunks, cut_lines
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.states import BatchKind, BatchMode, BatchSource
from support.audit import audited
from support.factories import Customer, make_customer
from support.rows import find_supplier

_IMPORT: dict[str, Any] = {"mode": BatchMode.IMPORT, "operations_team_name": "T"}
_TRANSACTIONS: dict[str, Any] = {"mode": BatchMode.IMPORT, "kind": BatchKind.TRANSACTIONS}


def test_a_retry_asks_for_the_same_unless_a_part_of_its_work_differs() -> None:
    unlike = [
        BatchOrder(**_IMPORT).identify("S"),
        BatchOrder(**_IMPORT).identify("R"),
        BatchOrder(**_IMPORT | {"mode": BatchMode.DRY_RUN}).identify("S"),
        BatchOrder(**_IMPORT | {"operations_team_name": "U"}).identify("S"),
        BatchOrder(**_IMPORT, source=BatchSource.PENDING).identify("S"),
        BatchOrder(**_IMPORT, profile=Profile.STRICT).identify("S"),
        BatchOrder(**_IMPORT, profile=Profile.LENIENT).identify("S"),
        BatchOrder(**_IMPORT, error_threshold=ErrorThreshold(stop_after_errors="5")).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, control_totals={"accounts": 1}).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, control_totals={"accounts": 2}).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, kind=BatchKind.NOTES).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, kind=BatchKind.TRANSACTIONS).identify("S"),
        BatchOrder(**_TRANSACTIONS, options={"a": True}).identify("S"),
        BatchOrder(**_TRANSACTIONS, options={"a": False}).identify("S"),
    ]
    assert len(set(unlike)) == len(unlike)
    assert BatchOrder(**_IMPORT, name="n", file_name="f", idempotency_key="k").identify("S") == unlike[0]


@pytest.mark.parametrize("kind", ActorKind)
@pytest.mark.parametrize("wave", [None, [1]])
def test_the_audit_has_the_batches_that_persons_start(
    sessions: sessionmaker[Session], kind: ActorKind, wave: list[int] | None
) -> None:
    batch_id, organisation_id = new_id(), make_customer(sessions).organisation_id
    order = BatchOrder(mode=BatchMode.IMPORT, kind=BatchKind.NOTES, wave_processes=wave)
    with sessions.begin() as session, acting_as(Origin(kind=kind, actor="somebody")):
        record_order(session, order, batch_id, organisation_id)
    found = audited(sessions, action="batch.ordered")
    is_person = kind in (ActorKind.OPERATOR, ActorKind.SYSTEM_USER)
    expected = [("batch", str(batch_id), organisation_id, {"mode": "import", "kind": "notes"})]
    assert [(it.subject_kind, it.subject, it.organisation_id, it.details) for it in found] == (
        expected if is_person and wave is None else []
    )


@pytest.mark.parametrize(("largest", "smallest"), [(100, 50), (100, 100), (3, 50), (1, 1)])
def test_every_line_is_in_one_chunk_however_long_the_batch_is(largest: int, smallest: int) -> None:
    for lines in (*range(1, 450, 7), 5_000):
        ranges = cut_lines(lines, largest, smallest)
        numbers = [number for first, last in ranges for number in range(first, last + 1)]
        assert numbers == list(range(1, lines + 1))
        assert max(last - first + 1 for first, last in ranges) <= largest


@pytest.mark.parametrize("lines", [1, 51, 100, 101, 400, 1_234])
def test_a_file_has_the_same_chunks_as_lines_that_are_counted(lines: int) -> None:
    chunks = RangeChunks(lines, 100)
    for number in range(1, lines + 1):
        chunks.add(Line(number, b"{}"))
    assert chunks.ranges == cut_lines(lines, 100)


def test_blank_lines_between_two_chunks_are_in_neither() -> None:
    chunks = RangeChunks(4, largest=2)
    for number in (2, 3, 9, 11):
        chunks.add(Line(number, b"{}"))
    assert chunks.ranges == [(2, 3), (9, 11)]


def test_a_chunk_has_four_million_bytes_at_most() -> None:
    chunks = RangeChunks(9, largest=100)
    for number, size in enumerate((1_999_999, 2_000_001, 1, 2_000_000, 2_000_000, 0, 4_000_001, 0, 1), 1):
        chunks.add(Line(number, b"x" * size if size else None))
    assert chunks.ranges == [(1, 2), (3, 4), (5, 6), (7, 7), (8, 9)]


_VALIDATE = BatchOrder(mode=BatchMode.VALIDATE)


def _start(session: Session, customer: Customer, order: BatchOrder, *lines: bytes) -> Batch:
    limits, file = FileLimits(line=100, total=1_000_000), io.BytesIO(b"\n".join(lines))
    spooled = SpooledLines(file, limits, identity=order.identify("S")) if lines else None
    batch_id = start_batch(session, find_supplier(session, customer), order, spooled)
    return session.get_one(Batch, batch_id, populate_existing=True)


def _lines(session: Session, batch: Batch) -> list[tuple[Any, ...]]:
    lines = select(BatchLine).where(BatchLine.batch_id == batch.id).order_by(BatchLine.line_number)
    return [
        (
            it.line_number,
            it.status,
            it.external_account_number,
            it.payload,
            [one["code"] for one in it.errors or ()],
        )
        for it in session.scalars(lines)
    ]


def _number(number: Any) -> bytes:
    return json.dumps({"external_account_number": number}).encode()


def test_of_the_lines_of_an_account_only_the_first_one_counts_wherever_the_others_are(
    session: Session, customer: Customer
) -> None:
    # The same hundred each day, in an order that no sort leaves as it is.
    numbers = [str(place * 37 % 100 % 20) for place in range(100)]
    batch = _start(session, customer, _VALIDATE, *map(_number, numbers))
    pending = {line[2]: line[0] for line in _lines(session, batch) if line[1] == "PENDING"}
    assert pending == {number: numbers.index(number) + 1 for number in set(numbers)}


def test_a_line_that_is_too_long_fails_without_its_text(session: Session, customer: Customer) -> None:
    batch = _start(session, customer, _VALIDATE, _number("1" * 100), _number("1"))
    assert _lines(session, batch) == [
        (1, "FAILED", None, None, ["line_too_long"]),
        (2, "PENDING", "1", _number("1"), []),
    ]
    assert (batch.lines, batch.stored_bytes) == (2, len(_number("1")) + 2 * 200)


def test_lines_of_added_data_are_cut_by_account_and_may_repeat_it(
    session: Session, customer: Customer
) -> None:
    order = BatchOrder(mode=BatchMode.IMPORT, kind=BatchKind.NOTES)
    with patch.object(upload, "ADDED_CHUNK_LINES", 3):
        batch = _start(session, customer, order, *map(_number, "121345678"))
    assert [line[1] for line in _lines(session, batch)] == ["PENDING"] * 9
    chunk_lines = select(BatchLine.chunk_line).where(BatchLine.batch_id == batch.id)
    found = session.scalars(chunk_lines.order_by(BatchLine.line_number)).all()
    made = select(BatchChunk).where(BatchChunk.batch_id == batch.id).order_by(BatchChunk.first_line)
    chunks = [(it.first_line, it.last_line, it.by_account, it.counts) for it in session.scalars(made)]
    assert {first for first, *_ in chunks} == set(found)
    assert 1 < len(chunks) <= 3
    assert found[0] == found[2]
    assert {by_account for *_, by_account, _ in chunks} == {True}
    assert sum(counts["PENDING"] for *_, counts in chunks) == 9
