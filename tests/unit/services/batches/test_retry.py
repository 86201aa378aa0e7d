"""Which failed lines are pending again, and which lines are repeated in another batch."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, null, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits
from migration_service.connections import make_redis
from migration_service.formats import ResultFormat
from migration_service.models import ApiKey, Batch, BatchChunk, BatchLine
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.quotas import BatchQuotas
from migration_service.services.batches.intake.storing import IntakeLimits, repeat_batch, stream_lines
from migration_service.services.batches.intake.upload import validated_under
from migration_service.services.batches.results import line_results
from migration_service.services.batches.results.counts import recount
from migration_service.services.batches.retry import Retried, Retryable, count_retryable, retry_failed
from migration_service.states import BatchMode, LineStatus
from support.factories import Customer
from support.rows import add_chunk, find_supplier, make_batch
from unit.services.batches.batch_rows import without_indexes
from unit.services.undo.undo_rows import add_pending

_MAY_PASS = "account_creation_failed"


def _item(code: str, attr: str | None = None) -> dict[str, Any]:
    return {"code": code, "attr": attr, "detail": "D"}


@pytest.fixture
def batch(session: Session, customer: Customer) -> Batch:
    """A batch that is over, with a chunk that is not, and another batch like it."""
    made = []
    for _ in range(2):
        validated = validated_under(None, "lenient")
        batch = make_batch(
            session,
            customer,
            state="COMPLETED",
            finished_at=func.now(),
            started_at=func.now(),
            validated_under=validated,
        )
        lines: list[tuple[int, str, bytes | None, list[dict[str, Any]]]] = [
            (1, "FAILED", b"{}", [_item(_MAY_PASS)]),
            (2, "FAILED", b"{}", [_item("required", "a.0")]),
            (3, "FAILED", b"{}", [_item(_MAY_PASS), _item("required", "b")]),
            (4, "FAILED", None, [_item(_MAY_PASS)]),
            (5, "FAILED", b"{}", [_item("duplicate_line_in_batch")]),
            (6, "VALID", b"{}", []),
            (11, "FAILED", b"{}", [_item(_MAY_PASS, "c")]),
            (21, "FAILED", b"{}", [_item(_MAY_PASS)]),
        ]
        for number, status, payload, errors in lines:
            values: dict[str, Any] = {"errors": errors or null(), "warnings": null()}
            session.add(
                BatchLine(batch_id=batch.id, line_number=number, status=status, payload=payload, **values)
            )
        session.flush()
        for first in (1, 11, 21):
            add_chunk(session, batch, first, first + 9)
        recount(session, batch.id)
        # A worker has this one at the moment.
        working = (BatchChunk.batch_id == batch.id, BatchChunk.first_line == 21)
        session.execute(update(BatchChunk).where(*working).values(state="DISPATCHED"))
        made.append(batch)
    return made[1]


def _pending(session: Session, batch: Batch) -> list[int]:
    found = select(BatchLine.line_number).where(BatchLine.batch_id == batch.id, BatchLine.status == "PENDING")
    return list(session.scalars(found.order_by(BatchLine.line_number)))


@pytest.mark.parametrize(
    ("wanted", "everything", "numbers"),
    [
        (line_results.ResultFilter(), False, [1, 11]),
        (line_results.ResultFilter(), True, [1, 2, 3, 11]),
        (line_results.ResultFilter(code=_MAY_PASS), True, [1, 3, 11]),
        (line_results.ResultFilter(code="required"), True, [2, 3]),
        (line_results.ResultFilter(code="required"), False, []),
        (line_results.ResultFilter(code="required", path="a.*"), True, [2]),
        (line_results.ResultFilter(path="b"), True, [3]),
        (line_results.ResultFilter(line=11), False, [11]),
        (line_results.ResultFilter(line=2), True, [2]),
        (line_results.ResultFilter(line=21), True, []),
        (line_results.ResultFilter(code="nothing"), True, []),
    ],
)
def test_the_lines_that_may_pass_or_all_that_are_wanted_are_pending_again(
    session: Session, batch: Batch, wanted: line_results.ResultFilter, numbers: list[int], *, everything: bool
) -> None:
    before = count_retryable(session, batch, wanted)
    assert (before.everything if everything else before.may_pass) == len(numbers)
    retried = retry_failed(session, batch, wanted, everything=everything)
    session.flush()
    session.expire_all()
    assert retried == Retried(len(numbers), 7 - len(numbers))
    assert _pending(session, batch) == numbers
    for number in numbers:
        line = session.get_one(BatchLine, (batch.id, number))
        assert (line.errors, line.warnings) == (None, None)
    assert batch.state == ("RUNNING" if numbers else "COMPLETED")
    assert (batch.started_at is None) is bool(numbers)
    chunks = session.execute(
        select(BatchChunk.first_line, BatchChunk.state).where(BatchChunk.batch_id == batch.id)
    )
    opened = {first for first, state in chunks if state == "PENDING"}
    assert opened == {1 if number < 10 else 11 for number in numbers}


def test_a_chunk_of_added_data_is_found_by_a_line_outside_its_range(
    session: Session, customer: Customer
) -> None:
    batch = make_batch(session, customer, kind="notes", state="COMPLETED", finished_at=func.now())
    for first, last, number in ((1, 1, 7), (2, 9, 8)):
        add_chunk(session, batch, first, last, by_account=True)
        session.add(
            BatchLine(
                batch_id=batch.id,
                line_number=number,
                chunk_line=first,
                status="FAILED",
                payload=b"{}",
                errors=[_item(_MAY_PASS)],
            )
        )
    session.flush()
    recount(session, batch.id)
    assert count_retryable(session, batch, line_results.ResultFilter(line=7)).everything == 1
    assert retry_failed(session, batch, line_results.ResultFilter(line=7), everything=True).retried == 1
    assert _pending(session, batch) == [7]


def test_staged_lines_may_pass_and_a_batch_that_runs_goes_on(session: Session, customer: Customer) -> None:
    batch = make_batch(session, customer, started_at=func.now())
    process_id, _ = add_pending(session, customer, "a", "b")
    for number, code, values in (
        (1, _MAY_PASS, {"account_import_process_id": process_id}),
        (2, _MAY_PASS, {}),
        (3, "required", {"payload": b"{}", "warnings": [_item("invalid_postcode", "b")]}),
    ):
        line = BatchLine(batch_id=batch.id, line_number=number, status="FAILED", errors=[_item(code)])
        for name, value in values.items():
            setattr(line, name, value)
        session.add(line)
    session.flush()
    add_chunk(session, batch, 1, 3)
    add_chunk(session, batch, 4, 4)
    recount(session, batch.id)
    started_at = batch.started_at
    postcodes = line_results.ResultFilter(code="invalid_postcode", path="b")
    assert count_retryable(session, batch, postcodes) == Retryable(1, 1)
    batch.validated_under = validated_under(None, "lenient")
    assert count_retryable(session, batch, postcodes) == Retryable(0, 1)
    assert retry_failed(session, batch) == Retried(1, 2)
    session.flush()
    session.refresh(batch)
    assert batch.runs_since, "it is not idle for as long as nothing could be done"
    assert (_pending(session, batch), batch.state, batch.started_at) == ([1], "RUNNING", started_at)


def test_who_retries_the_batch_of_a_revoked_key_takes_it_over(session: Session, batch: Batch) -> None:
    batch.api_key_id = session.scalars(select(ApiKey.id)).first()
    batch.validated_under = "others"
    session.execute(update(ApiKey).values(revoked_at=func.now()))
    session.expire_all()
    retry_failed(session, batch)
    assert batch.api_key_id is None
    assert (batch.state, batch.validated_under) == ("RUNNING", validated_under(None, "lenient"))


def test_every_line_of_a_batch_is_repeated_in_its_place(
    sessions: sessionmaker[Session], customer: Customer, redis_url: str
) -> None:
    with sessions.begin() as session:
        batch, another = (make_batch(session, customer) for _ in range(2))
        (process_id,) = add_pending(session, customer, "a", payload={"c": 1})
        add_pending(session, customer, "b", payload={"c": 2})
        for number, payload, process in (
            (8, b"{}", None),
            (7, b"", process_id),
            (6, None, None),  # it was too long
            (4, None, process_id),
            (2, b"[1]", None),
        ):
            line = BatchLine(batch_id=batch.id, line_number=number, payload=payload)
            line.account_import_process_id = process
            session.add(line)
            session.flush()
        session.add(BatchLine(batch_id=another.id, line_number=3, payload=b"3"))
        supplier = find_supplier(session, customer)
    whole = b'\n[1]\n\n{"c": 1}\n\n\n\n{}\n'
    assert list(stream_lines(sessions, batch.id)) == [whole]
    quotas = BatchQuotas(open_batches=9, stored_bytes=10_000)
    limits = IntakeLimits(file=FileLimits(line=100, total=1_000), quotas=quotas, uploads=1)
    redis = make_redis(redis_url, max_connections=1)
    order = BatchOrder(mode=BatchMode.VALIDATE)
    repeated = repeat_batch(sessions, supplier, batch.id, order, redis=redis, limits=limits)
    redis.close()
    lines = select(BatchLine.line_number, BatchLine.payload).where(BatchLine.batch_id == repeated)
    with sessions() as session:
        found = session.execute(lines.order_by(BatchLine.line_number))
        assert [tuple(it) for it in found] == [(2, b"[1]"), (4, b'{"c": 1}'), (8, b"{}")]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (stream_lines, b"1\n2\n3\n4\n5\n"),
        (line_results.stream_failed_lines, b"1\n2\n3\n4\n5\n"),
        (
            lambda sessions, batch_id: line_results.stream_results(sessions, batch_id, ResultFormat.NDJSON),
            b"".join(
                b'{"line_number":%d,"external_account_number":null,"status":"FAILED",'
                b'"service_account_number":null,"errors":[],"warnings":[],"staging_result":null}\n' % number
                for number in range(1, 6)
            ),
        ),
    ],
)
def test_lines_are_streamed_in_their_order_however_they_are_stored(
    sessions: sessionmaker[Session],
    customer: Customer,
    stream: Callable[[sessionmaker[Session], UUID], Iterator[bytes]],
    expected: bytes,
) -> None:
    with sessions.kw["bind"].connect() as connection:
        connection.begin()  # a session would commit one that it has begun itself
        within = sessionmaker(connection, join_transaction_mode="create_savepoint")
        with within.begin() as session:
            batch_id = make_batch(session, customer).id
            for number in (5, 2, 4, 1, 3):
                line = BatchLine(batch_id=batch_id, line_number=number, payload=b"%d" % number)
                line.status = LineStatus.FAILED
                session.add(line)
                session.flush()
            without_indexes(session)
        assert b"".join(stream(within, batch_id)) == expected
        connection.rollback()
