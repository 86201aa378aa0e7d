"""Batch work: validation on one core, and the whole import against dlt (peer c) and plain COPY (peer d)."""

import multiprocessing
import time
from collections.abc import Sequence
from functools import cache
from statistics import median
from typing import Any

from benchmarks.bench import Bench, Row, alternate, median_ratio
from benchmarks.copy_limit import CopyLimit
from benchmarks.payloads import NUMBER, SUPPLIER
from benchmarks.seed import sessions
from benchmarks.stack import PROCESSES
from migration_service.config import Settings
from migration_service.models import ImportSupplier
from migration_service.rules.rule import Profile
from migration_service.schemas.json import parse_json
from migration_service.services.creation import CreationJob, create_accounts
from migration_service.services.imports import find_process, stage_account
from migration_service.services.validation import validate_account

_CHUNK = 100


def measure_validation(bench: Bench) -> Row:
    """Payloads that one process parses and validates a second."""
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
    """Accounts a second from NDJSON to created accounts, against dlt and against COPY of the same rows."""
    count = bench.extent.batch
    limit = CopyLimit(bench.stack)
    first = bench.take_numbers(count)
    _import(bench, first, count)
    limit.take_rows(first, count)
    _dlt(bench, bench.take_numbers(200), 200)  # makes its tables
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
    lines = _lines(bench, first, count)
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        pool.map(_warm_up, [bench.stack.settings] * PROCESSES * 4, chunksize=1)
        chunks = [(bench.stack.settings, lines[at : at + _CHUNK]) for at in range(0, count, _CHUNK)]
        started = time.perf_counter()
        pool.starmap(_import_chunk, chunks, chunksize=1)
        return count / (time.perf_counter() - started)


@cache
def _sessions(settings: Settings) -> Any:
    return sessions(settings)


def _warm_up(settings: Settings) -> None:
    with _sessions(settings).begin() as session:
        session.connection()


def _import_chunk(settings: Settings, lines: list[str]) -> None:
    with _sessions(settings).begin() as session:
        supplier = session.query(ImportSupplier).filter_by(code=SUPPLIER).one()
        jobs = []
        for line in lines:
            account = validate_account(parse_json(line.encode()), Profile.LENIENT)
            stage_account(session, supplier, account)
            process = find_process(session, supplier.id, account.data["external_account_number"])
            assert process is not None
            jobs.append(CreationJob(process.id, 1))
        create_accounts(session, jobs)
