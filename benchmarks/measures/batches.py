"""Batch work: validation on one core, and the whole import against dlt (peer c) and plain COPY (peer d)."""

import time
from collections.abc import Sequence
from statistics import median
from uuid import UUID

from sqlalchemy import func, select

from benchmarks.bench import Bench, Row, alternate, median_ratio
from benchmarks.copy_limit import CopyLimit
from benchmarks.payloads import NUMBER, SUPPLIER, TEAM
from migration_service.models import Batch, BatchLine
from migration_service.schemas.json import parse_json
from migration_service.services.batches.ndjson import FileLimits
from migration_service.services.batches.orders import BatchOrder
from migration_service.services.batches.spool import SpooledLines
from migration_service.services.batches.upload import start_batch
from migration_service.services.imports.validation import validate_account
from migration_service.services.setup.suppliers import get_import_supplier
from migration_service.states import BatchMode, LineStatus, Profile
from migration_service.tasks.batches import feed_batches


def measure_validation(bench: Bench) -> Row:
    """Measure the payloads per second that one process parses and validates."""
    lines = [text.encode() for text in bench.texts]
    _validate(lines[:200])
    rates = [_validate(lines) for _ in range(bench.extent.rounds)]
    return Row(
        "batch validate, one core",
        median(rates),
        "accounts/s",
        "at least 2,000",
        median(rates) >= 2_000,
        more={"ours": rates},
    )


def _validate(lines: Sequence[bytes]) -> float:
    started = time.perf_counter()
    for line in lines:
        validate_account(parse_json(line), Profile.LENIENT).raise_errors()
    return len(lines) / (time.perf_counter() - started)


def measure_import(bench: Bench) -> list[Row]:
    """Measure created accounts per second from NDJSON, compared with dlt and with COPY of the same rows."""
    count = bench.extent.batch
    limit = CopyLimit(bench.stack)
    first = bench.take_numbers(count)
    _import(bench, first, count)
    limit.take_rows(first, count)
    _dlt(bench, bench.take_numbers(200), 200)  # creates its tables
    mine, c, d = alternate(
        max(2, bench.extent.rounds // 2),
        lambda: _import(bench, bench.take_numbers(count), count),
        lambda: _dlt(bench, bench.take_numbers(count), count),
        limit.copy,
    )
    return [
        _row(mine, c, 2.0, "at least 2 x peer c", "c: dlt"),
        _row(mine, d, 1 / 3, "at least a third of peer d", "d: plain COPY of the same rows"),
    ]


def _row(mine: list[float], peer: list[float], needed: float, goal: str, name: str) -> Row:
    ratio = median_ratio(mine, peer)
    more = {"ratio": ratio, "ours": mine, "peer": peer}
    return Row("batch import", median(mine), "accounts/s", goal, ratio >= needed, median(peer), name, more)


def _lines(bench: Bench, first: int, count: int) -> list[str]:
    return [
        bench.texts[number % len(bench.texts)].replace(NUMBER, f"{number:08d}")
        for number in range(first, first + count)
    ]


def _dlt(bench: Bench, first: int, count: int) -> float:
    file = bench.stack.folder / "payloads.ndjson"
    file.write_text("\n".join(_lines(bench, first, count)) + "\n")
    result = bench.peer("load_with_dlt.py", str(file), bench.stack.settings.database_url, "peer_dlt")
    return float(count / result["seconds"])


def _import(bench: Bench, first: int, count: int) -> float:
    """Start a batch as `batches start` does.

    Return the time until the workers have created the last account.
    """
    file = bench.stack.folder / "batch.ndjson"
    file.write_text("\n".join(_lines(bench, first, count)) + "\n")
    limits = FileLimits(line=bench.stack.settings.max_body_bytes, total=bench.stack.settings.max_batch_bytes)
    started = time.perf_counter()
    order = BatchOrder(mode=BatchMode.IMPORT, operations_team_name=TEAM)
    with file.open("rb") as stream:
        lines = SpooledLines(stream, limits, identity=order.identify(SUPPLIER))
        with bench.sessions.begin() as session:
            supplier = get_import_supplier(session, SUPPLIER, organisation_id=None)
            batch_id = start_batch(session, supplier, order, lines)
    feed_batches(bench.celery, bench.sessions)
    while not _is_over(bench, batch_id):
        time.sleep(0.02)
    seconds = time.perf_counter() - started
    with bench.sessions() as session:
        own = BatchLine.batch_id == batch_id, BatchLine.status == LineStatus.IMPORTED
        imported = session.scalar(select(func.count()).select_from(BatchLine).where(*own))
    assert imported == count, f"{imported} accounts of {count} were imported"
    return count / seconds


def _is_over(bench: Bench, batch_id: UUID) -> bool:
    with bench.sessions() as session:
        return session.scalar(select(Batch.finished_at).where(Batch.id == batch_id)) is not None
