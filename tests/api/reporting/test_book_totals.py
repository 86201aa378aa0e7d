"""What became of each total of a book: given, in the file, refused, staged, skipped, created."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import update

from migration_payloads.files.totals import add_up, list_measures
from migration_payloads.schemas.json import parse_json
from migration_service.models import Batch, Ledger
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.reconciliation.comparisons import start_comparison, wait_for_comparison
from migration_service.services.reconciliation.verdict import judge
from migration_service.services.reporting.retention import remove_batch_lines
from support.batch_client import BatchClient, counts, ndjson


def _book(client: BatchClient, batch_id: str | None = None) -> dict[str, Any]:
    query = {} if batch_id is None else {"batch": batch_id}
    answer = client.supplier.get(f"/reconciliation/{client.supplier.code}/", query_string=query)
    book: dict[str, Any] = parse_json(answer.data)["book"]
    return book


def _rows(book: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["measure"]: row for row in book["totals"]}


def _measures(*lines: Any) -> dict[str, Decimal]:
    return list_measures(add_up(ndjson(lines).splitlines()).to_dict())


def _assert_part(book: dict[str, Any], part: str, *lines: Any) -> None:
    expected = _measures(*lines) if lines else {}
    found = {name: Decimal(row[part]) for name, row in _rows(book).items() if row[part]}
    assert found == {name: value for name, value in expected.items() if value}


def _refuse(account: dict[str, Any]) -> dict[str, Any]:
    return {**account, "customers": [{}]}


def test_every_line_of_a_file_has_its_money_in_one_column(batches: BatchClient) -> None:
    good, *others = batches.supplier.accounts(3)
    refused, accepted = map(_refuse, others)
    accepted["ledgers"][0]["ledger_balance"] = "12.x"
    cut = b'{"ledgers": '
    report = batches.run([good, refused, accepted, good, cut])
    assert counts(report) == {"IMPORTED": 1, "FAILED": 4}
    body = {"external_account_numbers": [accepted["external_account_number"]], "reason": "Moved out."}
    batches.supplier.post(f"/reconciliation/{batches.supplier.code}/acknowledgements/", body)
    book = _book(batches, report["batch_id"])
    _assert_part(book, "file", good, refused, accepted, good, cut)
    _assert_part(book, "created", good)
    _assert_part(book, "refused", refused, accepted, cut)
    _assert_part(book, "acknowledged", accepted)
    _assert_part(book, "repeated", good)
    assert {row["unaccounted"] for row in book["totals"]} == {0}
    assert {row["given"] for row in book["totals"]} == {None}
    assert (book["given"], book["unreadable_lines"], book["unreadable_amounts"]) == (False, 1, 1)


def test_money_that_was_lost_after_the_file_is_unaccounted_for(batches: BatchClient) -> None:
    accounts = batches.supplier.accounts(2)
    report = batches.run(accounts)
    with batches.supplier.Session.begin() as session:
        session.execute(update(Ledger).values(ledger_balance=Ledger.ledger_balance - Decimal("0.01")))
    rows = _rows(_book(batches, report["batch_id"]))
    ledgers = sum(len(account["ledgers"]) for account in accounts)
    lost = sum(row["unaccounted"] for measure, row in rows.items() if measure.startswith("balance of "))
    assert lost == Decimal("0.01") * ledgers
    assert {row["unaccounted"] for measure, row in rows.items() if "balance" not in measure} == {0}


def test_what_was_on_the_line_of_an_erased_account_is_not_missing(batches: BatchClient) -> None:
    supplier = batches.supplier
    good, refused, *later = supplier.accounts(4)
    batch_id = batches.run([good, _refuse(refused)])["batch_id"]
    waits = batches.start(later)
    batches.change(waits, "pause")
    for account in (refused, later[0]):
        body = batches.line(account["external_account_number"], reason="Asked for.")
        assert supplier.post("/account-import-process/erase/", body).status_code == 200
    batches.change(waits, "resume")
    batches.work()
    for it in (batch_id, waits):
        found = supplier.reconcile(f"?batch={it}")
        assert (found["clean"], found["problems"]) == (True, [])
        assert found["book"]["has_other_versions"]


def test_once_the_lines_were_removed_nothing_is_said_to_be_unaccounted_for(batches: BatchClient) -> None:
    batch_id = batches.run([*batches.supplier.accounts(1), b"{"])["batch_id"]
    with batches.supplier.Session.begin() as session:
        mine = update(Batch).where(Batch.id == UUID(batch_id))
        session.execute(mine.values(finished_at=datetime(2020, 1, 1, tzinfo=UTC)))
        remove_batch_lines(session, after_days=30)
    sessions = batches.supplier.Session
    with sessions.begin() as session:
        supplier = batches.supplier.known()
        comparison_id = start_comparison(session, supplier, UUID(batch_id))[0].id
    assert wait_for_comparison(sessions, comparison_id)
    with sessions() as session:
        book = judge(session, supplier.id, UUID(batch_id)).book
    assert book is not None
    assert {(it.file is None, it.unaccounted) for it in book.totals} == {(False, None)}
    assert next(it.file for it in book.totals if it.measure == "accounts") == 2


def test_what_a_supplier_has_staged_and_skipped_is_beside_what_was_refused(batches: BatchClient) -> None:
    staged, skipped, mended, never = batches.supplier.accounts(4)
    batches.run([staged, skipped], "stage")
    with batches.supplier.Session.begin() as session:
        supplier = batches.supplier.known()
        skip_accounts(session, supplier.id, [skipped["external_account_number"]])
    batches.run([_refuse(mended), _refuse(never)])
    batches.run([mended])
    book = _book(batches)
    for part, lines in (("staged", [staged]), ("skipped", [skipped]), ("created", [mended])):
        _assert_part(book, part, *lines)
    _assert_part(book, "refused", _refuse(never))
    assert {(row["file"], row["given"], row["unaccounted"]) for row in book["totals"]} == {(None, None, None)}
    assert (book["given"], book["differing"], len(book["files"])) == (None, None, 3)


def test_control_totals_and_the_file_are_beside_the_money(batches: BatchClient) -> None:
    (account,) = batches.supplier.accounts(1)
    given = batches.run([account])["batch_id"]
    pending = (batches.post(None, source="pending").json or {})["batch_id"]
    path = f"/batches/{given}/control-totals/"
    batches.supplier.put(path, {"accounts": 2})
    row = _rows(_book(batches, given))["accounts"]
    assert [row[name] for name in ("given", "file", "difference", "created")] == [2, 1, -1, 1]
    assert _rows(_book(batches, given))["statements"]["given"] is None
    (file,) = _book(batches)["files"]
    report = batches.get(given)
    assert file == {
        "batch_id": given,
        "file_name": None,
        "control_totals_differing": 1,
        "control_totals_as_given": False,
        "is_superseded": False,
        **{name: report[name] for name in ("file_sha256", "file_bytes")},
    }
    assert (_book(batches, pending)["given"], _book(batches, pending)["files"]) == (None, [])


@pytest.mark.usefixtures("neighbour")
def test_a_file_is_superseded_by_later_ones_with_each_of_its_accounts(batches: BatchClient) -> None:
    supplier = batches.supplier
    first, second, third = supplier.accounts(3)

    def list_superseded() -> list[bool]:
        return [it["is_superseded"] for it in reversed(_book(batches)["files"])]

    def send(*accounts: Any, mode: str = "stage") -> UUID:
        batch_id = batches.run(accounts, mode)["batch_id"]
        supplier.put(f"/batches/{batch_id}/control-totals/", {"accounts": 9})
        return UUID(batch_id)

    send(first, mode="validate")
    supplier.stage(third)
    batches.run([batches.line("1")], kind="notes")
    assert batches.post(None, source="pending").status_code == 202
    assert list_superseded() == [False], "nothing else is a file of accounts"
    sent = send(first, second)
    assert batches.post(None, source="pending").status_code == 202
    send(first, second, mode="validate")
    send(first)
    assert list_superseded() == [True, False, True, False], "one account is only in a file to validate"
    send(second)
    assert list_superseded() == [True, True, True, False, False]
    with supplier.Session.begin() as session:
        session.execute(update(Batch).where(Batch.id == sent).values(lines_removed_at=datetime.now(UTC)))
    assert list_superseded() == [True, False, True, False, False], "nobody knows what was in it"


def test_a_batch_of_added_data_has_no_book(batches: BatchClient) -> None:
    assert _book(batches, batches.start([b"{}"], "validate", kind="notes")) is None
