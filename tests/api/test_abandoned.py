"""A request whose client has gone ends its statements. What is decoded at once is bounded."""

import gzip
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from migration_payloads.schemas.account import read_account
from migration_service.blueprints import account_imports, undo
from migration_service.blueprints.requests import places
from migration_service.blueprints.requests.resources import resources
from migration_service.db.pieces import DECODED
from migration_service.services.reporting import comparison as comparing
from migration_service.services.reporting.comparison_sql import JOIN_AS_SETS
from support.batch_client import BatchClient
from support.servers import wait_until
from support.supplier_client import API, SupplierClient

_FOR_EVER = "SELECT pg_sleep(3600)"
_RUNNING = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'migration-web' AND state = 'active' AND query LIKE '%pg_sleep(%'
""")
Open = Callable[[str], TestResponse]


@pytest.fixture(params=["compare", "get_changed_accounts", "preview_undo"])
def slow(
    request: pytest.FixtureRequest, batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], TestResponse]:
    """Send a request whose view executes this statement, and return what has come of its answer."""
    # Not the client that compares answers with the description: it reads them to their end.
    client = FlaskClient(batches.supplier.app, batches.supplier.app.response_class)
    headers = {"Authorization": f"Token {batches.supplier.token}"}
    one, other = (batches.start([b"{}"], "validate") for _ in range(2))
    batches.work()
    monkeypatch.setattr(places, "PATIENCE", 0.2)
    monkeypatch.setattr(places, "_BETWEEN_PIECES", 0.2)
    found = JOIN_AS_SETS
    monkeypatch.setattr(undo, "_read_order", lambda *_: None)

    def send(statement: str) -> TestResponse:
        before = (*found, text("SET LOCAL statement_timeout = 0"), text(statement))
        monkeypatch.setattr(comparing, "JOIN_AS_SETS", before)

        def preview(session: Session, _order: Any) -> Any:
            for it in before:
                session.execute(it)
            return {"accounts": 1}

        monkeypatch.setattr(undo, "preview_undo", preview)
        path = f"{API}/batches/{one}/comparison/{other}/"
        match request.param:
            case "compare":
                return client.get(path, headers=headers)
            case "get_changed_accounts":
                return client.get(f"{path}accounts/", headers=headers)
        target = {"import_supplier": batches.supplier.code, "batch": one}
        return client.post(f"{API}/undos/preview/", json=target, headers=headers)

    return send


def _count(batches: BatchClient) -> int:
    with batches.supplier.Session() as session:
        return session.scalar(_RUNNING) or 0


def _places(batches: BatchClient) -> tuple[int, int]:
    """Return how many places of the organisation run, and are taken."""
    with batches.supplier.app.app_context():
        held = resources().places._held[batches.supplier.organisation_id()]
    return held.running, held.places


def test_what_nobody_waits_for_is_cancelled(slow: Open, batches: BatchClient) -> None:
    """Whether or not the web server has asked for the first piece, and the place is free afterwards."""
    before = _places(batches)
    for asked in (True, False):
        answer = slow(_FOR_EVER)
        assert answer.status_code == 200
        assert _count(batches) == 1
        if asked:
            assert next(answer.iter_encoded()) == b""
        answer.close()
        wait_until(lambda: _count(batches) == 0, "it is cancelled")
        assert _places(batches) == before


def test_who_waits_gets_the_answer(slow: Open) -> None:
    at_once, later = slow("SELECT 1"), slow("SELECT pg_sleep(1)")
    assert (at_once.status_code, later.status_code) == (200, 200)
    pieces = [*later.iter_encoded()]
    assert pieces.count(b"") > 1
    assert b"".join(pieces) == at_once.get_data()
    assert later.mimetype == at_once.mimetype
    for answer in (at_once, later):
        answer.close()


def test_an_error_is_answered_as_ever_or_breaks_a_begun_answer_off(slow: Open) -> None:
    assert slow("SELECT 1 / 0").status_code == 500
    begun = slow("SELECT pg_sleep(1), 1 / (SELECT 0 FROM pg_sleep(1))")
    with pytest.raises(Exception, match="DivisionByZero"):
        list(begun.iter_encoded())
    begun.close()


def test_long_bodies_are_decoded_few_at_a_time_and_forgotten_at_the_end(
    supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    body = b'{"a":[%s0]}' % (b"[]," * 500_000)
    checked = read_account

    def read(text: bytes) -> Any:
        held.append(DECODED._held)
        return checked(text)

    monkeypatch.setattr(account_imports, "read_account", read)
    for sent in (body, gzip.compress(body), b"{}"):
        headers = {"Content-Encoding": "gzip"} if sent[:1] == b"\x1f" else {}
        assert supplier.post("/validate-account/", data=sent, headers=headers).status_code == 400
    assert held == [len(body), len(body), 0]
    assert DECODED._held == 0
