"""Rows of batches, as tests need them."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from migration_service.db.base import new_id
from migration_service.models import Batch, BatchChunk, BatchLine
from migration_service.services.batches.results.counts import recount
from migration_service.services.batches.work.chunks import ChunkKey, claim_chunk, work_on_chunk
from support.factories import Customer
from support.imported_account import LEDGER
from support.rows import add_chunk, make_batch

#: For a difference of times, as `func.now() - seconds(5)`.
seconds: Any = lambda number: func.make_interval(0, 0, 0, 0, 0, 0, number)  # noqa: E731


def without_indexes(session: Session) -> None:
    """Let PostgreSQL read rows as they are stored, so that only what asks for an order gets one."""
    for way in ("indexscan", "indexonlyscan", "bitmapscan"):
        session.execute(text(f"SET LOCAL enable_{way} = off"))


def add_lines(session: Session, batch: Batch, *statuses: str, first: int = 1, **values: Any) -> None:
    """Insert lines with these statuses, numbered from `first`."""
    for number, status in enumerate(statuses, first):
        session.add(BatchLine(batch_id=batch.id, line_number=number, status=status, **values))
    session.flush()


_METER_POINT = {
    "ean": "871685920001232914",
    "supply_type": "ELECTRICITY",
    "agreements": [{"supply_type": "ELECTRICITY", "effective_from": "2020-01-19", "tariff_code": "E"}],
    "meters": [{"meter_id": "E1", "registers": [{"register_id": "1.8.0"}]}],
}


def payload_of(customer: Customer, number: str, **parts: Any) -> dict[str, Any]:
    """Return a short payload that is valid, with these parts."""
    return {
        "import_supplier": customer.import_supplier,
        "external_account_number": number,
        "unknown_occupier": True,
        "billing_address1": "Singel 1",
        "billing_postcode": "1012 AB",
        "supply_addresses": [{"meter_points": [_METER_POINT]}],
        "ledgers": [LEDGER],
        **parts,
    }


def line_of(customer: Customer, number: str, **members: Any) -> dict[str, Any]:
    """Return a line of added data for an account."""
    return {"import_supplier": customer.import_supplier, "external_account_number": number, **members}


def warnings_of(session: Session, key: ChunkKey) -> list[list[tuple[str, str | None]]]:
    """Return of each line the codes and places of its warnings."""
    return [[(it["code"], it["attr"]) for it in line.warnings or ()] for line in lines_of(session, key)]


def make_chunk(
    session: Session, customer: Customer, lines: Sequence[Mapping[str, Any] | bytes], **values: Any
) -> ChunkKey:
    """Insert a batch with one chunk, which has these lines: import, unless the mode is given."""
    batch = make_batch(session, customer, **{"mode": "import"} | values)
    by_account = batch.kind != "accounts"
    add_chunk(session, batch, 1, len(lines), by_account=by_account)
    for number, line in enumerate(lines, 1):
        payload, account = line, None
        if not isinstance(line, bytes):
            payload, account = json.dumps(line).encode(), line["external_account_number"]
        session.add(
            BatchLine(
                batch_id=batch.id,
                line_number=number,
                payload=payload,
                external_account_number=account,
                chunk_line=1 if by_account else None,
            )
        )
    session.flush()
    recount(session, batch.id)
    session.expire_all()
    return ChunkKey(batch.id, 1)


def lines_of(session: Session, key: ChunkKey) -> Sequence[BatchLine]:
    """Return the lines of a batch as they are now."""
    lines = select(BatchLine).where(BatchLine.batch_id == key.batch_id).order_by(BatchLine.line_number)
    return session.scalars(lines.execution_options(populate_existing=True)).all()


def chunk_of(session: Session, key: ChunkKey) -> BatchChunk:
    """Return a chunk as it is now."""
    return session.get_one(BatchChunk, (key.batch_id, key.first_line), populate_existing=True)


def work(session: Session, key: ChunkKey, lines: int, *, tries: int = 1, **options: Any) -> int | None:
    """Claim a chunk for so many lines, and work on them."""
    attempts = [new_id() for _ in range(lines)]
    assert claim_chunk(session, key, attempts)
    chunk_of(session, key).tries = tries
    session.flush()
    return work_on_chunk(session, key, attempts, **options)


def codes_of(session: Session, key: ChunkKey) -> list[tuple[str, list[tuple[str, str | None]]]]:
    """Return of each line its status, and the codes and places of its errors."""
    return [
        (line.status, [(it["code"], it["attr"]) for it in line.errors or ()])
        for line in lines_of(session, key)
    ]
