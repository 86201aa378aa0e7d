"""The lines of a batch as they were sent, for another batch with the same lines."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits
from migration_service.connections import make_redis
from migration_service.formats import ResultFormat
from migration_service.models import BatchLine
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.quotas import BatchQuotas
from migration_service.services.batches.intake.storing import IntakeLimits
from migration_service.services.batches.repeat import repeat_batch, stream_lines
from migration_service.services.batches.results.line_results import stream_failed_lines, stream_results
from migration_service.states import BatchMode, LineStatus
from support.factories import Customer
from unit.services.batches.batch_rows import find_supplier, make_batch, without_indexes
from unit.services.undo.undo_rows import add_pending


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
        (stream_failed_lines, b"1\n2\n3\n4\n5\n"),
        (
            lambda sessions, batch_id: stream_results(sessions, batch_id, ResultFormat.NDJSON),
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
