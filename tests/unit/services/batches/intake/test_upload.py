"""What a new batch is stored with: its row, its lines, and the chunks that workers take."""

import io
import json
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_payloads.files.ndjson import FileLimits
from migration_payloads.profile import Profile
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.models import (
    ApiKey,
    Batch,
    BatchChunk,
    BatchLine,
)
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.error_thresholds import ErrorThreshold, usual_threshold
from migration_service.services.batches.intake import upload
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import BatchKind, BatchMode, BatchSource
from support.audit import list_entries
from support.factories import Customer
from unit.services.batches.batch_rows import add_lines, find_supplier, make_batch
from unit.services.undo.undo_rows import add_pending

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
