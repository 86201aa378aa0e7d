"""Batches over HTTP: files, parameters, results, and what people do with them."""

import csv
import gzip
import io
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import msgspec
import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files.ndjson import FileLimits
from migration_service.blueprints.requests.resources import resources
from migration_service.db.base import new_id
from migration_service.models import AccountImportProcess
from migration_service.services.batches.intake import upload
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.batches.intake.spool import SpooledLines
from migration_service.services.batches.intake.upload import start_batch
from migration_service.services.processing.execution import perform_attempt
from migration_service.states import BatchMode, SupplierStatus
from migration_service.tasks.names import RUN_CHUNK
from migration_service_client.command import main
from migration_service_local.samples import generate_accounts
from support.batch_client import BatchClient, counts, ndjson
from support.factories import json_of
from support.imported_account import refusal_of
from support.messages import noted_messages
from support.supplier_client import SupplierClient


def test_a_batch_imports_every_account_of_its_file(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(5)
    answer = batches.post(ndjson(accounts))
    assert answer.status_code == 202
    assert answer.json is not None
    assert (answer.json["state"], answer.json["lines"]) == ("RUNNING", 5)
    assert counts(answer.json) == {"PENDING": 5}
    assert answer.headers["Location"].endswith(f"/v1/data-import/batches/{answer.json['batch_id']}/")

    batches.work()
    report = batches.get(answer.json["batch_id"])
    assert (report["state"], counts(report)) == ("COMPLETED", {"IMPORTED": 5})
    assert report["rate"] > 0
    results = batches.results(answer.json["batch_id"])
    assert [line["line_number"] for line in results] == [1, 2, 3, 4, 5]
    for line, account in zip(results, accounts, strict=True):
        assert line["external_account_number"] == account["external_account_number"]
        status = batches.supplier.status(account["external_account_number"]).json
        assert status == {"status": "COMPLETED", "service_account_number": line["service_account_number"]}


@pytest.mark.parametrize(
    ("arguments", "mode", "attr"),
    [
        ({}, "imports", "mode"),
        ({"source": "pending"}, "stage", "mode"),
        ({"source": "pending"}, "dry-run", "source"),  # as it has a body
        ({"stop_after_errors": "9", "stop_window_lines": "nine"}, "import", "stop_window_lines"),
        ({"stop_after_errors": "9", "stop_ignore_codes": ","}, "import", "stop_ignore_codes"),
    ],
)
def test_wrong_parameters_are_named(
    batches: BatchClient, arguments: dict[str, Any], mode: str, attr: str
) -> None:
    answer = batches.post(b"{}", mode, **arguments)
    assert refusal_of(answer) == (400, "request_failed_validation")
    assert [item["attr"] for item in (answer.json or {})["errors"]] == [attr]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (SupplierStatus.PAUSED, "import_supplier_paused"),
        (SupplierStatus.COMPLETE, "import_supplier_complete"),
    ],
)
def test_a_paused_or_complete_supplier_can_still_validate(
    batches: BatchClient, status: SupplierStatus, code: str
) -> None:
    batches.supplier.set_status(status)
    accounts = batches.supplier.accounts(2)
    assert refusal_of(batches.post(ndjson(accounts), "stage")) == (400, code)
    assert counts(batches.run(accounts, "validate")) == {"VALID": 2}


def test_a_key_stands_for_one_file_and_mode_of_its_organisation(
    batches: BatchClient, another: SupplierClient
) -> None:
    key = {"Idempotency-Key": uuid4().hex}
    accounts = batches.supplier.accounts(3)
    body = ndjson(accounts)
    answers = [batches.post(it, headers=key) for it in (body, body, ndjson(accounts, compress=True))]
    assert [answer.status_code for answer in answers] == [202] * 3
    assert len({(answer.json or {})["batch_id"] for answer in answers}) == 1
    for answer in (batches.post(body + b"{}", headers=key), batches.post(body, "dry-run", headers=key)):
        assert refusal_of(answer) == (400, "idempotency_key_reused")
    theirs = BatchClient(another, batches.resources)
    assert theirs.post(ndjson(another.accounts()), headers=key).status_code == 202


def test_results_are_csv_if_the_accept_header_asks_for_it(batches: BatchClient) -> None:
    sound, broken = batches.supplier.accounts(2)
    del broken["external_account_number"]
    report = batches.run([sound, broken], "validate")
    answer = batches.supplier.get(f"/batches/{report['batch_id']}/results/", headers={"Accept": "text/csv"})
    assert answer.mimetype == "text/csv"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["status"] for row in rows] == ["VALID", "FAILED"]
    assert (rows[0]["code"], rows[0]["path"]) == ("", "")
    assert (rows[1]["code"], rows[1]["path"], rows[1]["value"]) == ("required", "external_account_number", "")


def test_results_are_filtered_by_status_code_and_path(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    accounts[0]["supply_addresses"][0]["meter_points"][0]["ean"] = "1"
    accounts[1]["external_account_number"] = ""
    batch_id = batches.run(accounts, "validate")["batch_id"]
    for query, lines in (
        ("status=FAILED", [1, 2]),
        ("code=blank", [2]),
        ("code=blank&status=VALID", []),
        ("path=supply_addresses.*.meter_points.0.ean", [1]),
        ("path=(", []),
    ):
        assert [line["line_number"] for line in batches.results(batch_id, f"?{query}")] == lines
    answer = batches.supplier.get(f"/batches/{batch_id}/results/?status=BROKEN")
    assert refusal_of(answer) == (400, "request_failed_validation")


def test_a_filter_by_an_unknown_code_is_refused(batches: BatchClient) -> None:
    path = f"/batches/{batches.run([b'{}'])['batch_id']}"
    for answer in (
        batches.supplier.get(f"{path}/results/?code=requird"),
        batches.supplier.get(f"{path}/failed-lines/?code=requird"),
        batches.supplier.post(f"{path}/retry-failed/?all=true&code=requird"),
    ):
        assert refusal_of(answer) == (400, "request_failed_validation")
        (error,) = (answer.json or {})["errors"]
        assert (error["code"], error["attr"]) == ("invalid_choice", "code")
        assert error["detail"].endswith("did you mean required?")


def test_failed_lines_are_returned_as_sent_and_their_correction_settles_the_batch(
    batches: BatchClient,
) -> None:
    sound, broken, staged = batches.supplier.accounts(3)
    wrong = broken | {"customers": "nobody"}
    sent = [msgspec.json.encode(sound), b'  {"external_account_number":  "x"}', msgspec.json.encode(wrong)]
    batch_id = batches.run([*sent, sent[2]])["batch_id"]
    answer = batches.supplier.get(f"/batches/{batch_id}/failed-lines/")
    assert answer.data.splitlines() == [sent[1].strip(), sent[2]]
    answer = batches.supplier.get(f"/batches/{batch_id}/failed-lines/?path=customers&code=not_a_list")
    assert answer.data.splitlines() == [sent[2]]
    # A line of a pending account has no text, so the staged payload is returned.
    staged["billing_postcode"] = "nowhere"
    batches.supplier.stage(staged)
    pending = (batches.post(None, source="pending", profile="strict").json or {})["batch_id"]
    with batches.supplier.Session.begin() as session:
        number = batches.supplier.process_of(staged["external_account_number"])
        session.execute(update(AccountImportProcess).where(number).values(rules_version="old"))
    batches.work()
    (line,) = batches.supplier.get(f"/batches/{pending}/failed-lines/").data.splitlines()
    assert msgspec.json.decode(line)["external_account_number"] == staged["external_account_number"]


@pytest.mark.parametrize(
    ("is_packed", "headers"),
    [
        (False, {}),
        (True, {}),
        (True, {"Content-Encoding": "gzip"}),
        (True, {"Content-Type": "application/gzip"}),
    ],
)
def test_a_file_is_read_in_each_form_and_its_hash_and_size_are_kept_as_it_was_sent(
    batches: BatchClient, is_packed: bool, headers: dict[str, str]
) -> None:
    book = b"\n" + ndjson(batches.supplier.accounts(2)) + b"\n"
    file = gzip.compress(book) if is_packed else book
    answer = batches.post(file, "validate", headers)
    batches.work()
    found = [answer.json or {}, *(batches.supplier.get("/batches/").json or [])]
    assert counts(found[1]) == {"VALID": 2}
    assert {(it["file_sha256"], it["file_bytes"]) for it in found} == {(sha256(file).hexdigest(), len(file))}


def test_a_batch_may_be_stricter_than_its_supplier_but_not_more_lenient(batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    account["billing_postcode"] = "nowhere"
    assert counts(batches.run([account], "stage")) == {"STAGED": 1}
    assert counts(batches.run([account], "stage", profile="strict")) == {"FAILED": 1}
    answer = batches.post(b"{}", "stage", profile="lenient")
    (error,) = (answer.json or {})["errors"]
    assert (answer.status_code, error["code"], error["attr"]) == (400, "invalid_choice", "profile")
    assert error["detail"].startswith("Expected strict: ")
    assert batches.post(b"{}", "validate", profile="lenient").status_code == 202


def test_a_batch_is_paused_resumed_and_cancelled(batches: BatchClient) -> None:
    with noted_messages() as messages:
        batch_id = batches.start(batches.supplier.accounts(2))
    assert messages == [(RUN_CHUNK, (batch_id, 1))]
    assert refusal_of(batches.change(batch_id, "resume")) == (400, "batch_state_conflict")
    assert (batches.change(batch_id, "pause").json or {})["state"] == "PAUSED"
    batches.work()
    assert counts(batches.get(batch_id)) == {"PENDING": 2}
    assert (batches.change(batch_id, "resume").json or {})["state"] == "RUNNING"
    answer = batches.change(batch_id, "cancel").json or {}
    assert (answer["state"], answer["finished_at"] is None) == ("CANCELLED", False)
    batches.work()
    assert counts(batches.get(batch_id)) == {"PENDING": 2}


def test_an_error_threshold_is_set_changed_and_taken_away(batches: BatchClient) -> None:
    given = {"stop_after_errors": "5%", "stop_ignore_codes": "required,invalid_ean"}
    batch_id = batches.start(batches.supplier.accounts(1), **given)
    brake = batches.get(batch_id)["brake"]
    assert (brake["stop_after_errors"], brake["stop_min_lines"]) == ("5%", 200)
    assert brake["stop_ignore_codes"] == ["required", "invalid_ean"]

    def change(query: str) -> Any:
        return batches.supplier.post(f"/batches/{batch_id}/brake/{query}")

    assert change("?stop_after_errors=7&stop_window_lines=9").status_code == 200
    brake = batches.get(batch_id)["brake"]
    assert (brake["stop_after_errors"], brake["stop_window_lines"]) == ("7", 9)
    assert (brake["stop_min_lines"], brake["stop_ignore_codes"]) == (None, [])
    for query, attr in (("", "stop_after_errors"), ("?stop_after_errors=7&stop_window=9", "stop_window")):
        assert [item["attr"] for item in change(query).json["errors"]] == [attr]
    assert change("?stop_after_errors=off").status_code == 200
    assert batches.get(batch_id)["brake"] is None
    batches.change(batch_id, "cancel")
    assert refusal_of(change("?stop_after_errors=7")) == (400, "batch_state_conflict")


def test_retry_repeats_only_the_failed_lines(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(3)
    for account in accounts:
        assert batches.supplier.stage(account).status_code == 201
    # The second one is being created at this moment.
    batches.supplier.process(accounts[1]["external_account_number"])
    report = batches.run([*accounts, accounts[0], b"{}"])
    assert counts(report) == {"IMPORTED": 2, "FAILED": 3}
    assert report["error_counts"]["account_import_in_progress"] == 1
    assert report["error_counts"]["duplicate_line_in_batch"] == 1

    number = accounts[1]["external_account_number"]
    perform_attempt(batches.resources.Session, batches.supplier.current_attempt(number))
    answer = batches.change(report["batch_id"], "retry-failed").json or {}
    assert (answer["retried"], answer["left"], answer["state"]) == (1, 2, "RUNNING")
    batches.work()
    report = batches.get(report["batch_id"])
    assert report["state"] == "COMPLETED"
    assert counts(report) == {"IMPORTED": 2, "ALREADY_IMPORTED": 1, "FAILED": 2}
    assert (batches.change(report["batch_id"], "retry-failed").json or {})["retried"] == 0
    path = f"/batches/{report['batch_id']}/retry-failed/?all=true"
    assert (batches.supplier.post(path).json or {})["retried"] == 1


def test_pending_accounts_are_imported_without_a_file(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(4)
    for account in accounts:
        batches.supplier.stage(account)
    answer = batches.post(None, source="pending")
    assert answer.status_code == 202
    batches.work()
    report = batches.get((answer.json or {})["batch_id"])
    assert (report["source"], counts(report)) == ("pending", {"IMPORTED": 4})
    answer = batches.post(None, source="pending")
    batches.work()
    assert batches.get((answer.json or {})["batch_id"])["state"] == "COMPLETED"


def test_a_key_of_a_batch_of_what_is_pending_is_of_one_request(batches: BatchClient) -> None:
    key = {"Idempotency-Key": uuid4().hex}
    first, again = (batches.post(None, source="pending", headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, again.json) == (202, 202, first.json)
    other = batches.post(None, "dry-run", source="pending", headers=key)
    assert refusal_of(other) == (400, "idempotency_key_reused")


def test_the_list_is_newest_first_in_pages(batches: BatchClient) -> None:
    ids = [batches.start([b"{}"], "validate") for _ in range(3)]
    for limit, pages in ((2, [ids[:0:-1], ids[:1]]), (3, [ids[::-1]])):
        found = batches.supplier.pages(f"/batches/?limit={limit}")
        assert [[it["batch_id"] for it in page] for page in found] == pages
    assert batches.supplier.get("/batches/?import_supplier=OTHER").json == []


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


@pytest.fixture
def batch_id(batches: BatchClient) -> str:
    """A batch of one good line, two bad numbers at different paths, and a line without its names."""
    accounts = batches.supplier.accounts(4)
    accounts[1]["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    accounts[2]["customers"] = [{"family_name": "Jansen", "mobile": "not a number"}]
    accounts[3]["customers"] = [{"family_name": 5}]
    report = batches.run(accounts)
    assert counts(report) == {"IMPORTED": 1, "FAILED": 3}
    return str(report["batch_id"])


def test_a_retry_is_answered_again_under_its_key_and_announced_once(
    batches: BatchClient, batch_id: str
) -> None:
    path, headers = f"/batches/{batch_id}/retry-failed/?all=true", {"Idempotency-Key": "again"}
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


def test_only_the_lines_that_the_filter_shows_are_retried(batches: BatchClient, batch_id: str) -> None:
    query = "code=invalid_phone_number&path=customers.0.landline"
    answer = batches.supplier.post(f"/batches/{batch_id}/retry-failed/?all=true&{query}")
    assert (answer.json["retried"], answer.json["left"]) == (1, 2)  # type: ignore[index]
    assert [line["line_number"] for line in batches.results(batch_id, "?status=PENDING")] == [2]


@pytest.fixture
def lose_at(app: Flask, sessions: sessionmaker[Session]) -> Iterator[Callable[[str], None]]:
    """Call it with a part of a statement: the connection is terminated just before it is executed."""
    with app.app_context():
        engine: Engine = resources().Session.kw["bind"]
    marks: list[str] = []

    def terminate(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if any(mark in statement for mark in marks):
            pid = connection.connection.driver_connection.info.backend_pid
            with sessions() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    event.listen(engine, "before_cursor_execute", terminate)
    yield marks.append
    event.remove(engine, "before_cursor_execute", terminate)


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/csv"])
@pytest.mark.parametrize("path", ["results/", "failed-lines/"])
def test_a_database_that_is_lost_at_the_beginning_is_answered_503(
    batches: BatchClient, lose_at: Callable[[str], None], path: str, accept: str
) -> None:
    batch_id = batches.start([b"{}"], "validate")
    batches.work()
    url, headers = f"/batches/{batch_id}/{path}", {"Accept": accept}
    assert batches.supplier.get(url, headers=headers).status_code == 200
    lose_at("FROM batch_line")
    lost = batches.supplier.get(url, headers=headers)
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
