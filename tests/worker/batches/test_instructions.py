"""Batches of payment instructions: vendors are asked outside of transactions, and at their rate."""

import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.doctor.diagnosis import ServiceParts
from migration_service.doctor.work_checks import check_batches, check_vendors
from migration_service.metrics.shared import read_vendor_calls
from migration_service.payment_vendors.calls import CALLS
from migration_service.services.accounts.payment_instructions import ask_vendor
from migration_service.services.batches.control import get_batch, report_batch
from migration_service.services.batches.work.added_data import instructions
from migration_service.services.reporting.counts import read_open_batches
from migration_service.services.setup.vendors import set_vendor_rate
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.vendor_servers import make_sandbox_vendor


@pytest.fixture
def vendor(batches: BatchClient, sandbox_url: str) -> str:
    return _make_vendor(batches, sandbox_url)


def _make_vendor(batches: BatchClient, url: str) -> str:
    name = make_sandbox_vendor(batches.supplier.Session, url)
    with batches.supplier.Session.begin() as session:
        set_vendor_rate(session, name, Decimal(500))
    return name


@pytest.fixture
def number(batches: BatchClient) -> str:
    accounts = batches.supplier.accounts(1)
    assert counts(batches.run(accounts)) == {"IMPORTED": 1}
    return str(accounts[0]["external_account_number"])


def _line(batches: BatchClient, number: str, vendor: str, reference: str) -> dict[str, Any]:
    return batches.line(number, vendor=vendor, reference=reference, type="CARD")


def test_validate_asks_nobody(batches: BatchClient, number: str, vendor: str) -> None:
    line = _line(batches, number, vendor, "card-refuse-1")
    with patch.object(instructions, "ask_vendor", side_effect=AssertionError):
        assert counts(batches.run([line], "validate", kind="payment-instructions")) == {"VALID": 1}


def test_a_vendor_that_is_down_defers_its_own_lines_only(
    batches: BatchClient, number: str, vendor: str, sandbox_url: str
) -> None:
    other = _make_vendor(batches, sandbox_url)
    accounts = [it | {"external_account_number": f"x{uuid4().hex}"} for it in batches.supplier.accounts(1)]
    batches.run(accounts)
    second = accounts[0]["external_account_number"]
    lines = [
        _line(batches, number, vendor, "card-error-1"),
        _line(batches, number, vendor, "card-ok-1"),
        _line(batches, second, other, "card-ok-2"),
    ]
    report = batches.run(lines, kind="payment-instructions")
    assert report["state"] == "RUNNING"
    results = batches.results(report["batch_id"])
    assert [line["status"] for line in results] == ["DEFERRED", "DEFERRED", "ADDED"]
    assert results[0]["warnings"][0]["code"] == "payment_vendor_unavailable"
    with batches.resources.Session.begin() as session:
        session.execute(
            text("""
                UPDATE batch_chunk SET not_before = now(), deferred_since = deferred_since - interval '8 days'
                WHERE batch_id = :id AND not_before IS NOT NULL"""),
            {"id": UUID(report["batch_id"])},
        )
    batches.work()
    results = batches.results(report["batch_id"])
    assert [line["status"] for line in results] == ["FAILED", "FAILED", "ADDED"]
    assert results[0]["errors"][0]["code"] == "payment_vendor_unavailable"
    answer = batches.change(report["batch_id"], "retry-failed")
    assert answer.json["retried"] == 2  # type: ignore[index]


def test_a_slow_vendor_does_not_hold_up_another(
    batches: BatchClient, number: str, vendor: str, sandbox_url: str
) -> None:
    other = _make_vendor(batches, sandbox_url)
    both = threading.Barrier(2)

    def wait_for_the_other(order: Any) -> Any:
        both.wait(60)  # one after the other, neither would get any further
        return ask_vendor(order)

    lines = [_line(batches, number, name, "card-ok-1") for name in (vendor, other)]
    with patch.object(instructions, "ask_vendor", wait_for_the_other):
        report = batches.run(lines, kind="payment-instructions")
    assert counts(report) == {"ADDED": 2}


def test_no_transaction_is_open_while_a_vendor_is_asked(
    batches: BatchClient, number: str, vendor: str
) -> None:
    open_transactions: list[int] = []

    def watch(order: Any) -> Any:
        with batches.supplier.Session() as session:
            found = session.scalar(
                text(
                    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'migration-worker' "
                    "AND state LIKE 'idle in transaction%'"
                )
            )
        open_transactions.append(found or 0)
        return ask_vendor(order)

    with patch.object(instructions, "ask_vendor", watch):
        report = batches.run([_line(batches, number, vendor, "card-ok-1")], kind="payment-instructions")
    assert counts(report) == {"ADDED": 1}
    assert open_transactions == [0]


@pytest.fixture
def parts(migrated: Settings, worker_resources: WorkerResources) -> Iterator[ServiceParts]:
    """What the doctor examines, with the calls of this process counted as those of a worker are."""
    CALLS.keep_in(worker_resources.redis)
    parts = ServiceParts(migrated, create_celery)
    yield parts
    parts.sessions.kw["bind"].dispose()
    parts.redis.connection_pool.disconnect()


def test_everything_says_that_a_batch_waits_for_a_vendor_that_hangs(
    batches: BatchClient, number: str, vendor: str, parts: ServiceParts
) -> None:
    names = ("card-ok-1", "card-hang-1", "card-hang-2")
    lines = [_line(batches, number, vendor, name) for name in names]
    batch_id = batches.run(lines, kind="payment-instructions")["batch_id"]
    with batches.supplier.Session.begin() as session:
        old = text("UPDATE batch SET created_at = :at, runs_since = :at WHERE id = :id")
        at = session.scalars(text("SELECT now() - interval '1 hour'")).one()
        session.execute(old, {"at": at, "id": UUID(batch_id)})
        session.execute(
            text("UPDATE batch_chunk SET worked_at = :at WHERE batch_id = :id"),
            {"at": at, "id": UUID(batch_id)},
        )
        report = report_batch(session, get_batch(session, batch_id, organisation_id=None))
        (idle,) = [
            it.idle_seconds
            for it in read_open_batches(session)
            if it.import_supplier == batches.supplier.code
        ]
    assert (report.condition, report.waits_for_vendors, idle) == ("DEFERRED", [vendor], 0)
    assert report.next_try_at
    answered = batches.get(batch_id)
    assert (answered["condition"], answered["waits_for_vendors"]) == ("DEFERRED", [vendor])

    (found,) = [it for it in check_vendors(parts) if vendor in it.seen]
    assert "it did not answer in time" in found.seen
    assert found.verdict == "warning"
    (found,) = [it for it in check_batches(parts) if batch_id in it.seen]
    assert f"2 deferred lines, for vendor {vendor}" in found.seen
    assert found.verdict == "ok"
    calls = {it.labels[1]: it.buckets[-1] for it in read_vendor_calls(parts.redis) if it.labels[0] == vendor}
    assert calls["confirmed"] == 1
    assert calls["payment_vendor_unavailable"] >= 1
