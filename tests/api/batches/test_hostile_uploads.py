"""Harmful uploads, which are too large, interrupted, slow or too many. They leave nothing."""

import gzip
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker
from werkzeug.test import TestResponse

from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.tasks.resources import WorkerResources
from support.batch_client import NDJSON, BatchClient
from support.factories import MakeClient
from support.imported_account import refusal_of
from support.supplier_client import SupplierClient

MakeBatches = Callable[..., BatchClient]


@pytest.fixture
def make_batches(
    migrated: Settings,
    make_client: MakeClient,
    sessions: sessionmaker[Session],
    worker_resources: WorkerResources,
    tmp_path: Path,
) -> MakeBatches:
    """Batches of a new organisation, in a service with the settings of the test."""

    def make(**changed: Any) -> BatchClient:
        app = make_client(replace(migrated, upload_folder=str(tmp_path), **changed)).application
        return BatchClient(SupplierClient.create(app, sessions), worker_resources)

    return make


def _bytes_of_tables(batches: BatchClient) -> int:
    """Return the size including dead rows, which refused uploads must not leave either."""
    sizes = "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relname IN :tables"
    tables = ("batch", "batch_line", "batch_chunk")
    with batches.supplier.Session() as session:
        return int(session.scalar(text(sizes.replace(":tables", str(tables)))) or 0)


#: Pages that the server may add by itself. 100,000 lines need fifty times as many.
_NOTHING = 100_000


_MANY_LINES = b"{}\n" * 100_000
_LONG_LINES = (b"x" * 1_000_000 + b"\n") * 12


@pytest.mark.parametrize(
    ("setting", "body", "code"),
    [
        ({"max_batch_lines": 90_000}, gzip.compress(_MANY_LINES, 6, mtime=0), "batch_too_many_lines"),
        ({"max_batch_lines": 9}, b"{}\n" * 10, "batch_too_many_lines"),
        ({"max_batch_lines": 9}, b"\n" * 9 + b"{}", "batch_too_many_lines"),
        ({"max_batch_bytes": 200_000}, gzip.compress(_MANY_LINES, 6, mtime=0), "batch_file_too_large"),
        ({"max_batch_ratio": 200}, gzip.compress(_LONG_LINES, mtime=0), "batch_compression_ratio_too_high"),
        ({"max_batch_bytes": 20}, b"{}\n" * 10, "request_too_large"),
    ],
    # Not the bodies, which are binary.
    ids=["compressed lines", "lines", "the last line", "decompressed bytes", "ratio", "bytes"],
)
def test_an_upload_beyond_a_limit_is_413_with_a_code_of_its_own_and_leaves_nothing(
    make_batches: MakeBatches, tmp_path: Path, setting: dict[str, int], body: bytes, code: str
) -> None:
    batches = make_batches(**setting)
    before = _bytes_of_tables(batches)
    for _ in range(3):
        assert refusal_of(batches.post(body, "validate")) == (413, code)
    assert _bytes_of_tables(batches) - before < _NOTHING
    assert list(tmp_path.iterdir()) == []


def test_the_largest_allowed_file_is_accepted(make_batches: MakeBatches) -> None:
    batches = make_batches(max_batch_lines=10, max_batch_bytes=30)
    assert batches.post(b"{}\n" * 10, "validate").status_code == 202
    assert batches.post(b"\n" * 9 + b"{}", "validate").status_code == 202


class _Body(io.RawIOBase):
    """A body that arrives in pieces. `meanwhile` is called before each."""

    def __init__(self, pieces: list[bytes], meanwhile: Callable[[], None], length: int) -> None:
        self._pieces, self._meanwhile, self._length = pieces, meanwhile, length
        self._place = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """The test client finds the length with this method."""
        self._place = self._length if whence else offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._meanwhile()
        if not self._pieces:
            return 0
        piece = self._pieces[0][: len(buffer)]
        self._pieces[0] = self._pieces[0][len(piece) :]
        if not self._pieces[0]:
            del self._pieces[0]
        buffer[: len(piece)] = piece
        return len(piece)


def _send_slowly(
    batches: BatchClient, pieces: list[bytes], meanwhile: Callable[[], None], length: int | None = None
) -> TestResponse:
    length = sum(map(len, pieces)) if length is None else length
    return batches.supplier.post(
        "/batches/",
        query_string={"import_supplier": batches.supplier.code, "mode": "validate"},
        headers={"Content-Type": NDJSON},
        input_stream=_Body(list(pieces), meanwhile, length),
    )


def test_an_interrupted_upload_leaves_nothing_in_the_tables_and_on_the_disk(
    make_batches: MakeBatches, tmp_path: Path
) -> None:
    batches = make_batches()
    pieces = [b'{"external_account_number": "x"}\n' * 20_000] * 10
    before = _bytes_of_tables(batches)
    for _ in range(3):
        answer = _send_slowly(batches, pieces, lambda: None, length=10_000_000)
        assert answer.status_code == 400
    assert _bytes_of_tables(batches) - before < _NOTHING
    assert list(tmp_path.iterdir()) == []


def test_no_connection_to_the_database_is_held_while_a_body_is_received(make_batches: MakeBatches) -> None:
    batches = make_batches()
    with batches.supplier.app.app_context():
        pool = resources().Session.kw["bind"].pool
    held: list[int] = []
    answer = _send_slowly(batches, [b"{}\n"] * 5, lambda: held.append(pool.checkedout()))
    assert answer.status_code == 202
    assert len(held) >= 5
    assert set(held) == {0}


def test_an_upload_that_began_before_its_session_ended_is_taken_in(make_batches: MakeBatches) -> None:
    batches = make_batches()
    (session,) = batches.supplier.get("/sessions/").json or []
    statuses: list[int] = []

    def end_the_session() -> None:
        if not statuses:
            answer = batches.supplier.post(f"/sessions/{session['session_id']}/end/", {})
            statuses.append(answer.status_code)

    assert _send_slowly(batches, [b"{}\n"], end_the_session).status_code == 202
    assert statuses == [200]
    assert batches.post(b"{}\n", "validate").status_code == 401


@pytest.mark.parametrize(
    ("most", "code", "seconds"),
    [({"max_uploads": 0}, "too_many_uploads", 1), ({"max_open_batches": 0}, "too_many_open_batches", 60)],
)
def test_uploads_and_open_batches_are_limited(
    make_batches: MakeBatches, most: dict[str, int], code: str, seconds: int
) -> None:
    """The limits of each organisation: tests/unit/services/batches/intake/test_storing.py."""
    refused = make_batches(**most).post(b"{}\n", "validate")
    assert refusal_of(refused) == (429, code)
    assert int(refused.headers["Retry-After"]) >= seconds


def test_a_full_disk_is_503_and_leaves_nothing(make_batches: MakeBatches, tmp_path: Path) -> None:
    batches = make_batches()
    with patch("migration_service.services.batches.intake.spool.FREE_SHARE", 1.0):
        assert refusal_of(batches.post(b"{}\n", "validate")) == (503, "upload_storage_full")
    assert list(tmp_path.iterdir()) == []
