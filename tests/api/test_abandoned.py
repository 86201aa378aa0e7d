"""A request whose client has gone ends its statements. What is decoded at once is bounded."""

import gzip
import json
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text
from werkzeug.test import TestResponse

from migration_payloads.schemas import account
from migration_service.blueprints.requests import places
from migration_service.blueprints.requests.resources import resources
from migration_service.db.cancelling import allow_minutes, is_followed
from migration_service.db.pieces import DECODED
from migration_service.services.batches import retry
from migration_service.services.batches.intake import upload
from migration_service.services.reconciliation import acknowledgements, submitted
from migration_service.services.reporting import comparison
from migration_service.services.undo import go_live, preview, starting
from migration_service.services.waves import plans
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.servers import EmbeddedServers, wait_until
from support.slow_statements import count_slow, slow_down
from support.supplier_client import API, SupplierClient

_FOR_EVER = "SELECT pg_sleep(3600)"
#: The module that has the long statements of an operation, and the status of its answer.
_DOORS = {
    "compare_batches": (comparison, 200),
    "get_changed_accounts": (comparison, 200),
    "preview_go_live": (go_live, 200),
    "preview_undo": (preview, 200),
    "start_undo": (starting, 202),
    "plan_waves": (plans, 201),
    "start_batch": (upload, 202),
    "start_batch of pending accounts": (upload, 202),
    "retry_failed_lines": (retry, 200),
    "reconcile_import_supplier": (submitted, 200),
    "acknowledge_open": (acknowledgements, 201),
}
Open = Callable[[str], TestResponse]


@pytest.fixture(scope="session")
def kept_batches(
    kept_supplier: SupplierClient, worker_resources: WorkerResources, embedded_servers: EmbeddedServers
) -> list[str]:
    """Two batches of a line without a number, one that created an account, and one that staged nothing.

    Another account is staged.
    """
    with embedded_servers.keeping("batches"):
        embedded_servers.put_back("supplier")
        batches = BatchClient(kept_supplier.copy(), worker_resources)
        one, other = batches.supplier.accounts(2)
        modes = ("validate", "validate", "import", "stage")
        ids = [batches.start([one] if it == "import" else [b"{}"], it) for it in modes]
        batches.work()
        batches.supplier.stage(other)
        return ids


@pytest.fixture(params=_DOORS)
def slow(
    request: pytest.FixtureRequest,
    batches: BatchClient,
    kept_batches: list[str],
    embedded_servers: EmbeddedServers,
    monkeypatch: pytest.MonkeyPatch,
) -> Open:
    """Send a request whose view executes this statement, and return what has come of its answer."""
    embedded_servers.empty()
    embedded_servers.put_back("batches")
    before, after, created, unnumbered = kept_batches
    # Not the client that compares answers with the description: it reads them to their end.
    client = FlaskClient(batches.supplier.app, batches.supplier.app.response_class)
    code, team = batches.supplier.code, batches.supplier.team
    monkeypatch.setattr(places, "PATIENCE", 0.2)
    monkeypatch.setattr(places, "_BETWEEN_PIECES", 0.2)
    start = {"import_supplier": code, "mode": "import", "operations_team_name": team}
    file = {"data": b"{}", "content_type": "application/x-ndjson"}
    undo = {"import_supplier": code, "batch": created}
    refused = {"reason": "A test.", "batch": unnumbered}
    plan = {"import_supplier": code, "operations_team_name": team, "waves": [{"sample": 1}]}
    orders: dict[str, tuple[str, str, dict[str, Any]]] = {
        "compare_batches": ("GET", f"batches/{before}/comparison/{after}/", {}),
        "get_changed_accounts": ("GET", f"batches/{before}/comparison/{after}/accounts/", {}),
        "preview_go_live": ("POST", "go-lives/preview/", {"json": undo}),
        "preview_undo": ("POST", "undos/preview/", {"json": undo}),
        "start_undo": ("POST", "undos/", {"json": {**undo, "reason": "A test."}}),
        "plan_waves": ("POST", "wave-plans/", {"json": plan}),
        "start_batch": ("POST", "batches/", {"query_string": start, **file}),
        "start_batch of pending accounts": (
            "POST",
            "batches/",
            {"query_string": {**start, "source": "pending"}},
        ),
        "retry_failed_lines": ("POST", f"batches/{before}/retry-failed/", {"query_string": {"all": "true"}}),
        "reconcile_import_supplier": ("GET", f"reconciliation/{code}/", {}),
        "acknowledge_open": ("POST", f"reconciliation/{code}/acknowledgements/", {"json": refused}),
    }
    method, path, options = orders[request.param]

    def send(statement: str) -> TestResponse:
        slow_down(monkeypatch, _DOORS[request.param][0], statement)
        headers = {"Authorization": f"Token {batches.supplier.token}"}
        return client.open(f"{API}/{path}", method=method, headers=headers, **options)

    return send


def _places(batches: BatchClient) -> tuple[int, int]:
    """Return how many places of the organisation run, and are taken."""
    with batches.supplier.app.app_context():
        held = resources().places._held[batches.supplier.organisation_id()]
    return held.running, held.places


def test_what_nobody_waits_for_is_cancelled_and_changes_nothing(slow: Open, batches: BatchClient) -> None:
    """Whether or not the web server has asked for the first piece, and the place is free afterwards."""
    before = _places(batches)
    for asked in (True, False):
        answer = slow(_FOR_EVER)
        assert answer.status_code < 300
        assert count_slow(batches.supplier.Session) == 1
        if asked:
            assert next(answer.iter_encoded()).strip() == b""
        answer.close()
        wait_until(lambda: count_slow(batches.supplier.Session) == 0, "it is cancelled")
        assert _places(batches) == before
    with slow("SELECT 1") as last:
        assert last.status_code < 300


def test_who_waits_gets_the_answer(slow: Open, batches: BatchClient, request: pytest.FixtureRequest) -> None:
    answer = slow("SELECT pg_sleep(1)")
    assert answer.status_code == _DOORS[request.node.callspec.params["slow"]][1]
    pieces = [*answer.iter_encoded()]
    assert sum(not piece.strip() for piece in pieces) > 1
    for line in b"".join(pieces).splitlines():
        assert json.loads(line)
    if location := answer.headers.get("Location"):
        assert batches.supplier.get(location.removeprefix(API)).status_code == 200
    answer.close()


@pytest.mark.parametrize("slow", ["compare_batches", "start_undo"], indirect=True)
def test_an_error_is_answered_as_ever_or_breaks_a_begun_answer_off(
    slow: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as patient:
        patient.setattr(places, "PATIENCE", 60.0)
        assert slow("SELECT 1 / 0").status_code == 500
    begun = slow("SELECT pg_sleep(1), 1 / (SELECT 0 FROM pg_sleep(1))")
    # The web server ends the answer as a complete one, whatever happened.
    last_line = begun.get_data().rstrip(b"\n").rpartition(b"\n")[2]
    with pytest.raises(json.JSONDecodeError):
        json.loads(last_line)
    assert "DivisionByZero" in caplog.text
    begun.close()


@pytest.mark.parametrize(("followed", "longest"), [(False, "10s"), (True, "10min")])
def test_other_statements_of_requests_end_after_ten_seconds(
    supplier: SupplierClient, followed: bool, longest: str
) -> None:
    """For whose result nobody may be waiting."""
    context = copy_context()
    context.run(is_followed.set, followed)
    with supplier.app.app_context(), resources().Session.begin() as session:
        context.run(allow_minutes, session)
        assert session.scalar(text("SHOW statement_timeout")) == longest


def test_long_bodies_are_decoded_few_at_a_time_and_forgotten_at_the_end(
    supplier: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    body = b'{"a":[%s0]}' % (b"[]," * 500_000)
    checked = account.read_account

    def read(text: bytes) -> Any:
        held.append(DECODED._held)
        return checked(text)

    monkeypatch.setattr(account, "read_account", read)
    for sent in (body, gzip.compress(body), b"{}"):
        headers = {"Content-Encoding": "gzip"} if sent[:1] == b"\x1f" else {}
        assert supplier.post("/validate-account/", data=sent, headers=headers).status_code == 400
    assert held == [len(body), len(body), 0]
    assert DECODED._held == 0
