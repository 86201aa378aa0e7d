"""Batches over HTTP: files, parameters, results, and what people do with them."""

import io
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import msgspec
import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy import Engine, event, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits
from migration_service.blueprints.requests.resources import resources
from migration_service.db.base import new_id
from migration_service.models import AccountImportProcess
from migration_service.services.batches.intake import upload
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.states import BatchMode
from migration_service.tasks.names import RUN_CHUNK
from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import BatchClient, counts, ndjson
from support.factories import json_of
from support.imported_account import refusal_of
from support.messages import noted_messages
from support.supplier_client import SupplierClient


def test_a_key_is_refused_while_its_file_is_being_uploaded(batches: BatchClient) -> None:
    supplier, key = batches.supplier, uuid4().hex
    body = ndjson(supplier.accounts())
    with supplier.Session() as session:
        # Another upload has written this, and has not committed it.
        known = supplier.known()
        order = BatchOrder(mode=BatchMode.STAGE, idempotency_key=key)
        limits = FileLimits(line=1_000, total=1_000)
        lines = SpooledLines(io.BytesIO(body[:10]), limits, identity=order.identify(supplier.code))
        start_batch(session, known, order, lines)
        answer = batches.post(body, "stage", headers={"Idempotency-Key": key})
        assert refusal_of(answer) == (400, "idempotency_request_in_progress")
        assert int(answer.headers["Retry-After"]) > 0
    assert batches.post(body, "stage", headers={"Idempotency-Key": key}).status_code == 202
    assert batches.post(body, "stage", headers={"Idempotency-Key": f'"{key}"'}).status_code == 202
    assert len(supplier.get("/batches/").json or ()) == 1


def test_a_retry_is_answered_again_under_its_key_and_announced_once(batches: BatchClient) -> None:
    good, *others = batches.supplier.accounts(4)
    report = batches.run([good, *(it | {"customers": [{"family_name": 5}]} for it in others)])
    assert counts(report) == {"IMPORTED": 1, "FAILED": 3}
    path, headers = f"/batches/{report['batch_id']}/retry-failed/?all=true", {"Idempotency-Key": "again"}
    # The process is killed as soon as the view has returned.
    killed = patch.object(Flask, "make_response", side_effect=KeyboardInterrupt)
    with noted_messages() as messages, killed, pytest.raises(KeyboardInterrupt):
        batches.supplier.post(path, headers=headers)
    assert [task for task, _ in messages] == [RUN_CHUNK]
    assert batches.supplier.post(path, headers=headers).json["retried"] == 3  # type: ignore[index]


def test_what_is_removed_while_a_request_names_it_does_not_exist(
    batches: BatchClient, another: SupplierClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove(statement: str) -> UUID:
        with batches.supplier.Session.begin() as session:
            session.execute(text(statement), {"team": batches.supplier.team, "code": another.code})
        return new_id()

    monkeypatch.setattr(upload, "new_id", lambda: remove("DELETE FROM operations_team WHERE name = :team"))
    answer = batches.post(ndjson(batches.supplier.accounts(1)))
    assert refusal_of(answer) == (400, "operations_team_not_found")
    monkeypatch.setattr(upload, "new_id", lambda: remove("DELETE FROM import_supplier WHERE code = :code"))
    answer = BatchClient(another, batches.resources).post(ndjson(another.accounts(1)), "validate")
    assert refusal_of(answer) == (400, "import_supplier_not_found")
    assert refusal_of(another.stage(another.accounts(1)[0])) == (400, "import_supplier_not_found")


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/csv"])
@pytest.mark.parametrize("path", ["results/", "failed-lines/"])
def test_a_database_that_is_lost_at_the_beginning_is_answered_503(
    app: Flask, sessions: sessionmaker[Session], batches: BatchClient, path: str, accept: str
) -> None:
    def terminate(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "FROM batch_line" in statement:
            pid = connection.connection.driver_connection.info.backend_pid
            with sessions() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    batch_id = batches.start([b"{}"], "validate")
    batches.work()
    url, headers = f"/batches/{batch_id}/{path}", {"Accept": accept}
    assert batches.supplier.get(url, headers=headers).status_code == 200
    with app.app_context():
        engine: Engine = resources().Session.kw["bind"]
    event.listen(engine, "before_cursor_execute", terminate)
    lost = batches.supplier.get(url, headers=headers)
    event.remove(engine, "before_cursor_execute", terminate)
    assert (lost.status_code, json_of(lost)["code"]) == (503, "service_unavailable")
    assert "Retry-After" in lost.headers


def staged(sessions: sessionmaker[Session], supplier: SupplierClient) -> dict[str, Any]:
    imports = AccountImportProcess
    query = select(imports.external_account_number, imports.payload).where(
        imports.import_supplier_id == supplier.known().id
    )
    with sessions() as session:
        return {it.external_account_number: it.payload for it in session.execute(query)}


def test_sending_what_changed_and_what_is_new_stages_the_whole_book(
    batches: BatchClient, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    supplier = batches.supplier
    old = supplier.accounts(100)
    new = [it | {"billing_address2": "1 A"} if n % 20 == 7 else it for n, it in enumerate(old)]
    # What did not change is spelled in another way.
    new = [dict(reversed(it.items())) for it in new]
    new += generate_accounts(5, supplier=supplier.code, seed=99_999)
    (tmp_path / "old").write_bytes(ndjson(old))
    (tmp_path / "new").write_bytes(ndjson(new))
    parts = tmp_path / "parts"
    arguments = ["delta", str(tmp_path / "old"), str(tmp_path / "new"), "-o", str(parts)]
    assert CliRunner().invoke(main, arguments).exit_code == 1
    batches.run(old, "stage")
    sent = [(parts / f"{name}.ndjson").read_bytes().splitlines() for name in ("changed", "new")]
    assert [len(lines) for lines in sent] == [5, 5]
    assert counts(batches.run(sent[0] + sent[1], "stage")) == {"STAGED": 10}
    after_parts = staged(sessions, supplier)
    batches.run([msgspec.json.encode(it) for it in new], "stage")
    assert staged(sessions, supplier) == after_parts
    assert len(after_parts) == 105
