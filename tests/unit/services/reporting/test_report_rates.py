"""How much was done in each part of the time of batches, or of the accounts of a supplier."""

from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session

from migration_service.models import Batch
from migration_service.services.reporting.report_rates import Rates, read_rates
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import make_batch, make_chunk, make_process, read_now


def _values(known: KnownSupplier, *batches: Batch) -> dict[str, Any]:
    return {"import_supplier_id": known.id, "batch_ids": [it.id for it in batches] or None}


def test_nothing_was_done_yet(session: Session, known: KnownSupplier, other: KnownSupplier) -> None:
    now = read_now(session)
    make_process(session, other, "1", account_created_at=now)
    assert read_rates(session, _values(known)) is None
    make_batch(session, known, started_at=now)
    assert read_rates(session, _values(known, make_batch(session, known))) is None


def test_created_accounts_of_a_supplier_are_counted_in_parts(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    since = read_now(session) - timedelta(days=1)
    for supplier, number, second, state in (
        (known, "1", 0, "IMPORTED"),
        (known, "2", 0, "IMPORTED"),
        (known, "3", 10, "IMPORTED"),
        (known, "4", 16, "IMPORTED"),
        (known, "5", 99, "PENDING"),
        (other, "6", 99, "IMPORTED"),
    ):
        at = since + timedelta(seconds=second)
        make_process(session, supplier, number, state=state, account_created_at=at)
    found = read_rates(session, _values(known))
    assert found == Rates(since, since + timedelta(seconds=16), 2.0, [2, 0, 0, 0, 0, 1, 0, 1])
    assert found.highest == 1.0


def test_lines_of_batches_are_counted_in_parts(session: Session, known: KnownSupplier) -> None:
    since = read_now(session) - timedelta(seconds=100)

    def at(second: int | None) -> Any:
        return None if second is None else since + timedelta(seconds=second)

    def make(started: int | None, finished: int | None, *chunks: tuple[int, dict[str, int]]) -> Batch:
        batch = make_batch(session, known, lines=9, started_at=at(started), finished_at=at(finished))
        for line, (second, counts) in enumerate(chunks, 1):
            make_chunk(session, batch, line, counts=counts, finished_at=at(second))
        return batch

    first = make(0, 30, (-1, {"VALID": 100}), (3, {"VALID": 1, "FAILED": 2}), (4, {"VALID": 5}))
    second = make(8, 40, (16, {"VALID": 7}), (40, {"VALID": 8}))
    make(-50, 60, (20, {"VALID": 1_000}))
    never = make(None, None)
    found = read_rates(session, _values(known, first, second, never))
    assert found == Rates(since, at(40), 5.0, [8, 0, 0, 7, 0, 0, 0, 8])
    running = make(4, None)
    found = read_rates(session, _values(known, first, running))
    assert found == Rates(since, read_now(session), 12.5, [8, 0, 0, 0, 0, 0, 0, 0])
