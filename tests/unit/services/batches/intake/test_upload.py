"""What a new batch may be asked to do, and what it is stored with."""

import io
import json
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits, Line
from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.db.base import new_id
from migration_service.errors import RequestFailedValidationError
from migration_service.models import ApiKey, Batch, BatchChunk, BatchLine
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.error_thresholds import ErrorThreshold, usual_threshold
from migration_service.services.batches.intake import upload
from migration_service.services.batches.intake.options import BatchOrder, record_order
from migration_service.services.batches.intake.ranges import RangeChunks, cut_lines
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import BatchKind, BatchMode, BatchSource
from support.audit import audited, list_entries
from support.factories import Customer, make_customer
from support.rows import find_supplier, make_batch
from unit.services.batches.batch_rows import add_lines
from unit.services.undo.undo_rows import add_pending

_IMPORT: dict[str, Any] = {"mode": BatchMode.IMPORT, "operations_team_name": "T"}
_NOTES: dict[str, Any] = {"mode": BatchMode.IMPORT, "kind": BatchKind.NOTES}
_TRANSACTIONS: dict[str, Any] = {"mode": BatchMode.IMPORT, "kind": BatchKind.TRANSACTIONS}


@pytest.mark.parametrize(
    ("parts", "errors"),
    [
        ({"mode": BatchMode.IMPORT}, [("required", "operations_team_name")]),
        ({"mode": BatchMode.DRY_RUN}, [("required", "operations_team_name")]),
        ({"mode": BatchMode.VALIDATE, "source": BatchSource.PENDING}, [("invalid_choice", "mode")]),
        ({"mode": BatchMode.STAGE, "source": BatchSource.PENDING}, [("invalid_choice", "mode")]),
        (_IMPORT | {"idempotency_key": "\n"}, [("idempotency_key_invalid", "Idempotency-Key")]),
        (_NOTES | {"mode": BatchMode.STAGE}, [("invalid_choice", "mode")]),
        (_NOTES | {"source": BatchSource.PENDING}, [("invalid_choice", "source")]),
        (_NOTES | {"operations_team_name": "T"}, [("invalid", "operations_team_name")]),
        (_NOTES | {"options": {"a": True, "b": True}}, [("invalid", "a"), ("invalid", "b")]),
        (_IMPORT | {"options": {"a": True}}, [("invalid", "a")]),
        (
            {
                "mode": BatchMode.STAGE,
                "kind": BatchKind.STATEMENTS,
                "source": BatchSource.PENDING,
                "operations_team_name": "T",
            },
            [
                ("invalid_choice", "mode"),
                ("invalid_choice", "source"),
                ("invalid", "operations_team_name"),
                ("invalid_choice", "mode"),
            ],
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    parts: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    with pytest.raises(RequestFailedValidationError) as refused:
        BatchOrder(**parts)
    assert [(item.code, item.attr) for item in refused.value.errors] == errors


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


def _sizes(ranges: list[tuple[int, int]]) -> list[int]:
    return [last - first + 1 for first, last in ranges]


@pytest.mark.parametrize(("largest", "smallest"), [(100, 50), (100, 100), (3, 50), (1, 1)])
def test_every_line_is_in_one_chunk_however_long_the_batch_is(largest: int, smallest: int) -> None:
    for lines in (*range(1, 450, 7), 5_000):
        ranges = cut_lines(lines, largest, smallest)
        numbers = [number for first, last in ranges for number in range(first, last + 1)]
        assert numbers == list(range(1, lines + 1))
        assert max(_sizes(ranges)) <= largest


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


def _spool(order: BatchOrder, lines: Iterable[bytes], limit: int = 100) -> SpooledLines:
    limits = FileLimits(line=limit, total=1_000_000)
    return SpooledLines(io.BytesIO(b"\n".join(lines)), limits, identity=order.identify("S"))


def _start(session: Session, customer: Customer, order: BatchOrder, *lines: bytes) -> Batch:
    spooled = _spool(order, lines) if lines else None
    batch_id = start_batch(session, find_supplier(session, customer), order, spooled)
    return session.get_one(Batch, batch_id, populate_existing=True)


def _chunks(session: Session, batch: Batch) -> list[tuple[int, int, bool, dict[str, int]]]:
    chunks = select(BatchChunk).where(BatchChunk.batch_id == batch.id).order_by(BatchChunk.first_line)
    return [(it.first_line, it.last_line, it.by_account, it.counts) for it in session.scalars(chunks)]


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


def test_each_line_is_stored_with_its_number_and_the_account_that_it_has(
    session: Session, customer: Customer
) -> None:
    another = make_batch(session, customer)
    add_lines(session, another, *["PENDING"] * 4, external_account_number="1")
    texts = [
        _number("1"),
        b"",
        b"{",
        _number("1"),
        _number(7),
        b"x" * 101,
        _number("2" * 128)[:-2] + b"\\u0009" + b'"}',
        b"\xff",
        _number("1"),
        _number(None),
        _number("2" * 128),
    ]
    with patch.object(upload, "CHUNK_LINES", 6):
        batch_id = start_batch(
            session, find_supplier(session, customer), _VALIDATE, _spool(_VALIDATE, texts, limit=200)
        )
    batch = session.get_one(Batch, batch_id)
    repeated = ["duplicate_line_in_batch"]
    assert _lines(session, batch) == [
        (1, "PENDING", "1", texts[0], []),
        (3, "PENDING", None, texts[2], []),
        (4, "FAILED", "1", texts[3], repeated),
        (5, "PENDING", None, texts[4], []),
        (6, "PENDING", None, texts[5], []),
        (7, "PENDING", None, texts[6], []),
        (8, "PENDING", None, texts[7], []),
        (9, "FAILED", "1", texts[8], repeated),
        (10, "PENDING", None, texts[9], []),
        (11, "PENDING", "2" * 128, texts[10], []),
    ]
    assert _chunks(session, batch) == [
        (1, 7, False, {"PENDING": 5, "FAILED": 1}),
        (8, 11, False, {"PENDING": 3, "FAILED": 1}),
    ]
    assert (batch.lines, batch.stored_bytes) == (10, sum(map(len, texts)) + 10 * 200)
    session.refresh(another)
    assert ([line[1] for line in _lines(session, another)], another.lines) == (["PENDING"] * 4, 0)


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


@pytest.mark.parametrize("number", ["1" * 129, "1\n", 1, None, ["1"]])
def test_what_is_no_account_number_is_not_compared(session: Session, customer: Customer, number: Any) -> None:
    order = BatchOrder(mode=BatchMode.VALIDATE)
    lines = _spool(order, [_number(number), _number(number), b"[" * 2_000], limit=5_000)
    batch_id = start_batch(session, find_supplier(session, customer), order, lines)
    found = _lines(session, session.get_one(Batch, batch_id))
    assert [(status, number) for _, status, number, _, _ in found] == [("PENDING", None)] * 3


def test_lines_of_added_data_are_cut_by_account_and_may_repeat_it(
    session: Session, customer: Customer
) -> None:
    order = BatchOrder(mode=BatchMode.IMPORT, kind=BatchKind.NOTES)
    with patch.object(upload, "ADDED_CHUNK_LINES", 3):
        batch = _start(session, customer, order, *map(_number, "121345678"))
    assert [line[1] for line in _lines(session, batch)] == ["PENDING"] * 9
    chunk_lines = select(BatchLine.chunk_line).where(BatchLine.batch_id == batch.id)
    found = session.scalars(chunk_lines.order_by(BatchLine.line_number)).all()
    chunks = _chunks(session, batch)
    assert {first for first, *_ in chunks} == set(found)
    assert 1 < len(chunks) <= 3
    assert found[0] == found[2]
    assert {by_account for *_, by_account, _ in chunks} == {True}
    assert sum(counts["PENDING"] for *_, counts in chunks) == 9


def test_a_batch_of_what_is_pending_has_it_in_the_order_of_its_numbers(
    session: Session, customer: Customer, other: Customer
) -> None:
    order = BatchOrder(
        mode=BatchMode.IMPORT, source=BatchSource.PENDING, operations_team_name=customer.operations_team
    )
    second, first, third = add_pending(session, customer, "b", "a", "c")
    add_pending(session, other, "d")
    add_pending(session, customer, "e", state="SKIPPED")
    batch = _start(session, customer, order)
    lines = select(BatchLine).where(BatchLine.batch_id == batch.id).order_by(BatchLine.line_number)
    assert [
        (it.line_number, it.status, it.external_account_number, it.account_import_process_id, it.payload)
        for it in session.scalars(lines)
    ] == [
        (number, "PENDING", account, process, None)
        for number, (account, process) in enumerate((("a", first), ("b", second), ("c", third)), 1)
    ]
    assert (batch.lines, batch.stored_bytes) == (3, 600)
    assert _chunks(session, batch) == [(1, 3, False, {"PENDING": 3})]
    wave = BatchOrder(
        mode=BatchMode.IMPORT,
        source=BatchSource.PENDING,
        operations_team_name=customer.operations_team,
        wave_processes=[third, first],
    )
    batch = _start(session, customer, wave)
    assert [number for _, _, number, _, _ in _lines(session, batch)] == ["a", "c"]
    assert (batch.state, batch.reason, batch.lines) == ("PAUSED", "window_closed", 2)
    assert batch.runs_until
    assert batch.runs_until.isoformat() == "1970-01-01T00:00:00+00:00"
    empty = BatchOrder(
        mode=BatchMode.IMPORT,
        source=BatchSource.PENDING,
        operations_team_name=customer.operations_team,
        wave_processes=[],
    )
    assert _chunks(session, _start(session, customer, empty)) == []


def test_a_batch_keeps_everything_that_was_asked_for(session: Session, customer: Customer) -> None:
    supplier = find_supplier(session, customer)
    key_id = session.scalars(select(ApiKey.id)).first()
    threshold = ErrorThreshold(stop_after_errors="5")
    order = BatchOrder(
        mode=BatchMode.DRY_RUN,
        operations_team_name=customer.operations_team,
        api_key_id=key_id,
        idempotency_key="key-1",
        name="a name",
        file_name="a file",
        profile=Profile.STRICT,
        error_threshold=threshold,
        lines_per_minute=600,
    )
    origin = Origin(kind=ActorKind.OPERATOR, actor="ann", address="192.0.2.1", request_id="request")
    with acting_as(origin):
        batch = _start(session, customer, order, b"{}")
    assert batch.runs_since and batch.runs_since > batch.created_at, "when its lines were stored"
    team = get_operations_team_id(session, customer.organisation_id, customer.operations_team)
    values = {
        "organisation_id": customer.organisation_id,
        "import_supplier_id": supplier.id,
        "kind": "accounts",
        "mode": "dry-run",
        "options": {},
        "source": "upload",
        "operations_team_id": team,
        "api_key_id": key_id,
        "request_id": "request",
        "address": "192.0.2.1",
        "idempotency_key": "key-1",
        "name": "a name",
        "file_name": "a file",
        "profile": "strict",
        "validated_under": f"{RULES_VERSION} strict",
        "brake": threshold.to_dict(),
        "lines_per_minute": 600,
        "state": "RUNNING",
        "reason": None,
        "runs_until": None,
    }
    assert {name: getattr(batch, name) for name in values} == values
    acts = list_entries(session, subject_kind="batch")
    assert [(it.action, it.subject) for it in acts] == [("batch.ordered", str(batch.id))]
    plain = _start(
        session,
        customer,
        BatchOrder(
            mode=BatchMode.IMPORT, kind=BatchKind.TRANSACTIONS, options={"check_previously_added": False}
        ),
        b"{}",
    )
    assert (plain.options, plain.operations_team_id) == ({"check_previously_added": False}, None)
    assert (plain.validated_under, plain.profile) == (f"{RULES_VERSION} lenient", None)
    assert plain.brake == usual_threshold(BatchMode.IMPORT).to_dict()
    assert plain.request_sha256 is None
