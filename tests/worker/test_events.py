"""What causes events, each in the transaction that records it, with what the catalogue describes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import update

from migration_service.db.base import new_id
from migration_service.models import ApiKey, Batch
from migration_service.schemas.events import EventType
from migration_service.services.access.api_keys import tell_expiring_keys
from migration_service.services.batches.intake import upload as batch_upload
from migration_service.services.batches.work.chunks import claim_chunk, work_on_chunk
from migration_service.services.events.recording import record_for_all
from support.batch_client import BatchClient
from support.events import read_told
from support.supplier_client import SupplierClient

BROKEN = b"{"


@pytest.fixture(autouse=True)
def _short_chunks() -> Iterator[None]:
    with patch.object(batch_upload, "CHUNK_LINES", 5):
        yield


def told(supplier: SupplierClient, *types: EventType) -> list[dict[str, Any]]:
    return read_told(supplier.Session, supplier.organisation_id(), *types)


def test_lines_that_fail_while_the_file_arrives_are_told_like_others(batches: BatchClient) -> None:
    first, second = batches.supplier.accounts(2)
    other = second | {"billing_address2": "other"}
    with patch.object(batch_upload, "TOLD", 2):
        report = batches.run([first, first, second, other, b"x" * 8_000_001, BROKEN])
    events = told(batches.supplier, EventType.BATCH_PROGRESSED)
    lines = {line["line_number"]: line for event in events for line in event["lines"]}
    assert len(lines) == sum(len(event["lines"]) for event in events) == 6
    for result in batches.results(report["batch_id"]):
        codes = sorted({item["code"] for item in result["errors"]})
        line = lines[result["line_number"]]
        assert (line["status"], line.get("codes", [])) == (result["status"], codes)


def test_a_batch_ends_when_no_worker_has_lines_of_it(batches: BatchClient) -> None:
    """What a worker has when a batch is cancelled is in the event of its end, and so is what it gave back."""
    supplier = batches.supplier
    batch_id = batches.start(supplier.accounts(15))
    chunks = batches.dispatch()
    attempts = [[new_id() for _ in range(5)] for _ in chunks]
    with supplier.Session() as session, supplier.Session() as late:
        for key, its in zip(chunks, attempts, strict=True):
            claim_chunk(session, key, its)
        session.execute(update(Batch).where(Batch.id == batch_id).values(started_at=datetime.now(UTC)))
        session.commit()
        assert work_on_chunk(session, chunks[0], attempts[0]) == 0
        assert batches.change(batch_id, "cancel").status_code == 200
        session.commit()
        batches.dispatch()
        assert told(supplier, EventType.BATCH_ENDED) == []
        assert batches.get(batch_id)["finished_at"] is None
        for key, its in zip(chunks[1:], attempts[1:], strict=True):
            assert work_on_chunk(late, key, its) is None
        late.commit()
    batches.dispatch()
    batches.dispatch()
    (event,) = told(supplier, EventType.BATCH_ENDED)
    assert (event["state"], event["counts"]) == ("CANCELLED", {"IMPORTED": 5, "PENDING": 10})
    assert batches.get(batch_id)["finished_at"] is not None


def test_a_key_that_expires_is_told_of_thirty_seven_and_one_days_before(supplier: SupplierClient) -> None:
    def expire_in(revoked_at: datetime | None = None, **left: int) -> list[int]:
        expires_at = datetime.now(UTC) + timedelta(**left)
        with supplier.Session.begin() as session:
            session.execute(update(ApiKey).values(expires_at=expires_at, revoked_at=revoked_at))
        for _ in range(2):
            with supplier.Session.begin() as session:
                tell_expiring_keys(session)
        events = told(supplier, EventType.API_KEY_EXPIRES)
        assert {event["prefix"] for event in events} <= {supplier.api_key[:14]}
        return [event["days"] for event in events]

    assert expire_in(hours=-1) == expire_in(days=30, hours=1) == expire_in(datetime.now(UTC), hours=1) == []
    assert expire_in(days=29, hours=23) == [30]
    assert expire_in(days=7, hours=1) == [30]
    assert expire_in(days=6, hours=23) == [30, 7]
    assert expire_in(hours=23) == [30, 7, 1]


def test_what_concerns_the_whole_service_is_told_every_organisation(supplier: SupplierClient) -> None:
    with supplier.Session.begin() as session:
        record_for_all(session, EventType.AUDIT_DAY_SEALED, {"day": "2026-02-28", "head": "00"})
    assert told(supplier) == [{"day": "2026-02-28", "head": "00"}]
