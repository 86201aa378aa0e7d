"""The comparison of two batches over HTTP: codes, accounts, and who may see them."""

import csv
import io
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from flask import Flask
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import Batch
from migration_service.services.reporting import comparison
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.supplier_client import SupplierClient


@pytest.fixture
def batches(supplier: SupplierClient, worker_resources: WorkerResources) -> BatchClient:
    return BatchClient(supplier, worker_resources)


def _broken(account: dict[str, Any]) -> dict[str, Any]:
    return account | {"billing_postcode": 7}


def _book(batches: BatchClient, number: int) -> list[dict[str, Any]]:
    return [
        account | {"external_account_number": f"{index:03}"}
        for index, account in enumerate(batches.supplier.accounts(number))
    ]


def _compare(batches: BatchClient, before: str, after: str) -> dict[str, Any]:
    answer = batches.supplier.get(f"/batches/{before}/comparison/{after}/")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json  # type: ignore[assignment]
    return body


def _accounts(batches: BatchClient, before: str, after: str, query: str = "") -> list[dict[str, Any]]:
    answer = batches.supplier.get(f"/batches/{before}/comparison/{after}/accounts/{query}")
    assert answer.status_code == 200, answer.text
    return [msgspec.json.decode(line) for line in answer.data.splitlines()]


def _two_rehearsals(batches: BatchClient) -> tuple[str, str]:
    """Return two batches: 0 stays sound, 1 breaks, 2 is mended, 3 stays broken, 4 goes, 5 comes; 6, 7 too."""
    book = _book(batches, 8)
    first = [
        *(book[0], book[1], _broken(book[2]), _broken(book[3]), _broken(book[4])),
        *(book[6], b"not JSON", book[0]),
    ]
    second = [
        *(book[5] | {"ledgers": "none"}, book[3] | {"ledgers": "none"}, book[2]),
        *(book[1] | {"customers": "nobody"}, book[0], book[7]),
    ]
    return tuple(batches.run(lines, "validate")["batch_id"] for lines in (first, second))


def test_accounts_are_newly_broken_mended_or_still_broken(batches: BatchClient) -> None:
    before, after = _two_rehearsals(batches)
    found = _compare(batches, before, after)
    assert (found["before"], found["after"]) == (before, after)
    assert found["accounts"] == {
        "newly_broken": 1,
        "mended": 1,
        "still_broken": 1,
        "added_broken": 1,
        "removed_broken": 1,
        "passed": 1,
        "added": 1,
        "removed": 1,
        "undecided": 0,
        "unnumbered_before": 1,
        "unnumbered_after": 0,
    }
    listed = _accounts(batches, before, after)
    by_number = {item["external_account_number"]: item for item in listed}
    assert {number: item["change"] for number, item in by_number.items()} == {
        "001": "NEWLY_BROKEN",
        "002": "MENDED",
        "003": "STILL_BROKEN",
        "004": "REMOVED_BROKEN",
        "005": "ADDED_BROKEN",
    }
    broken = by_number["001"]
    assert (broken["before_line"], broken["after_line"]) == (2, 4)
    assert broken["before_codes"] == []
    assert broken["after_codes"]
    assert [item["after_line"] for item in listed] == [1, 2, 4, 3, None]
    assert by_number["004"]["after_codes"] == []


def test_the_reverse_comparison_says_the_reverse(batches: BatchClient) -> None:
    before, after = _two_rehearsals(batches)
    forth, back = (_compare(batches, *pair)["accounts"] for pair in ((before, after), (after, before)))
    reversed_names = {
        "newly_broken": "mended",
        "added_broken": "removed_broken",
        "added": "removed",
        "unnumbered_before": "unnumbered_after",
    }
    pairs = reversed_names | {other: name for name, other in reversed_names.items()}
    assert back == {pairs.get(name, name): number for name, number in forth.items()}


def test_codes_came_went_grew_and_shrank(batches: BatchClient) -> None:
    book = _book(batches, 4)
    no_postcode = [_broken(account) for account in book]
    first = batches.run([b"no JSON", no_postcode[0], *book[1:]], "validate")["batch_id"]
    second = batches.run([*no_postcode[:3], book[3]], "validate")["batch_id"]
    codes = _compare(batches, first, second)["codes"]
    found = {item["code"]: item for item in codes if item["severity"] == "error"}
    assert found["parse_error"] == {
        "severity": "error",
        "code": "parse_error",
        "before": 1,
        "after": 0,
        "change": "WENT",
    }
    (grown,) = [item for code, item in found.items() if code != "parse_error"]
    assert (grown["before"], grown["after"], grown["change"]) == (1, 3, "GREW")
    back = {item["code"]: item["change"] for item in _compare(batches, second, first)["codes"]}
    assert (back["parse_error"], back[grown["code"]]) == ("CAME", "SHRANK")
    same = _compare(batches, first, first)
    assert {item["change"] for item in same["codes"]} == {"SAME"}


def test_a_line_that_repeats_an_account_does_not_break_it(batches: BatchClient) -> None:
    (account,) = _book(batches, 1)
    first = batches.run([account], "validate")["batch_id"]
    second = batches.run([account, account], "validate")["batch_id"]
    found = _compare(batches, first, second)
    assert (found["accounts"]["passed"], found["accounts"]["newly_broken"]) == (1, 0)
    assert [item["code"] for item in found["codes"] if item["severity"] == "error"] == [
        "duplicate_line_in_batch"
    ]
    assert _accounts(batches, first, second) == []


def test_a_pending_line_decides_nothing(batches: BatchClient) -> None:
    (account,) = _book(batches, 1)
    first = batches.run([_broken(account)], "validate")["batch_id"]
    second = batches.start([account], "validate")
    assert _compare(batches, first, second)["accounts"]["undecided"] == 1
    assert _accounts(batches, first, second) == []
    batches.work()
    assert _compare(batches, first, second)["accounts"]["mended"] == 1


def test_pages_of_accounts_join(batches: BatchClient, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = _two_rehearsals(batches)
    whole = _accounts(batches, before, after)
    monkeypatch.setattr(comparison, "_PAGE", 1)
    monkeypatch.setattr(comparison, "_WRITTEN", 1)
    assert _accounts(batches, before, after) == whole


def test_accounts_are_filtered_by_change_and_written_as_csv(batches: BatchClient) -> None:
    before, after = _two_rehearsals(batches)
    (mended,) = _accounts(batches, before, after, "?change=MENDED")
    assert mended["external_account_number"] == "002"
    answer = batches.supplier.get(
        f"/batches/{before}/comparison/{after}/accounts/?change=NEWLY_BROKEN", headers={"Accept": "text/csv"}
    )
    assert answer.mimetype == "text/csv"
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["external_account_number"], row["before_line"], row["after_line"]) == ("001", "2", "4")
    assert row["after_codes"]
    refused = batches.supplier.get(f"/batches/{before}/comparison/{after}/accounts/?change=mended")
    assert (refused.status_code, (refused.json or {})["errors"][0]["attr"]) == (400, "change")


def _note(batches: BatchClient, number: str, body: Any) -> dict[str, Any]:
    return {
        "import_supplier": batches.supplier.code,
        "external_account_number": number,
        "notes": [{"body": body}],
    }


def _two_rehearsals_of_notes(batches: BatchClient) -> tuple[str, str]:
    """Return two batches: 0 stays sound, 1 breaks, 2 is mended, 3 is not created yet; 2 has two lines."""
    book = _book(batches, 4)
    batches.run(book[:3])
    waiting = batches.start([book[3]])
    assert batches.change(waiting, "pause").status_code == 200
    numbers = [account["external_account_number"] for account in book]
    bodies = (["a", "a", "a", 7, 7, "a"], ["a", "a", 7, "a", "a", "a"])
    lines = ([0, 1, 2, 2, 2, 3], [0, 1, 1, 2, 2, 3])
    first, second = (
        batches.run(
            [_note(batches, numbers[index], body) for index, body in zip(indexes, said, strict=True)],
            kind="notes",
        )["batch_id"]
        for indexes, said in zip(lines, bodies, strict=True)
    )
    return first, second


def test_accounts_with_several_lines_of_added_data_are_compared_once(batches: BatchClient) -> None:
    before, after = _two_rehearsals_of_notes(batches)
    found = _compare(batches, before, after)
    assert {name: number for name, number in found["accounts"].items() if number} == {
        "newly_broken": 1,
        "mended": 1,
        "passed": 1,
        "undecided": 1,
    }
    (broken, mended) = _accounts(batches, before, after)
    assert (broken["external_account_number"], broken["change"]) == ("001", "NEWLY_BROKEN")
    assert (broken["before_line"], broken["after_line"]) == (2, 3)
    assert (broken["before_codes"], broken["after_codes"]) == ([], ["invalid"])
    assert (mended["external_account_number"], mended["change"]) == ("002", "MENDED")
    assert (mended["before_line"], mended["after_line"]) == (4, 4)
    assert (mended["before_codes"], mended["after_codes"]) == (["invalid"], [])


def test_pages_of_accounts_with_several_lines_join(
    batches: BatchClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = _two_rehearsals_of_notes(batches)
    whole = _accounts(batches, after, before)
    monkeypatch.setattr(comparison, "_PAGE", 1)
    assert _accounts(batches, after, before) == whole
    assert len(whole) == 2


@pytest.mark.parametrize("failing_first", [False, True])
def test_a_deferred_line_decides_nothing(batches: BatchClient, *, failing_first: bool) -> None:
    (account,) = _book(batches, 1)
    assert batches.change(batches.start([account]), "pause").status_code == 200
    number = account["external_account_number"]
    failing, deferred = (
        batches.run([_note(batches, number, body)], kind="notes")["batch_id"] for body in (7, "a")
    )
    assert batches.get(deferred)["counts"]["DEFERRED"] == 1
    pair = (failing, deferred) if failing_first else (deferred, failing)
    accounts = _compare(batches, *pair)["accounts"]
    assert {name: count for name, count in accounts.items() if count} == {"undecided": 1}
    assert _accounts(batches, *pair) == []


def test_batches_of_two_kinds_are_not_compared(batches: BatchClient) -> None:
    (account,) = _book(batches, 1)
    of_accounts = batches.run([account])["batch_id"]
    line = _note(batches, account["external_account_number"], "a")
    of_notes = batches.run([line], kind="notes")["batch_id"]
    for pair in ((of_accounts, of_notes), (of_notes, of_accounts)):
        for ending in ("", "accounts/"):
            answer = batches.supplier.get(f"/batches/{pair[0]}/comparison/{pair[1]}/{ending}")
            assert (answer.status_code, (answer.json or {})["code"]) == (400, "batches_not_comparable")
            assert "kind notes" in answer.text
            assert "kind accounts" in answer.text


def test_batches_of_two_suppliers_are_not_compared(
    batches: BatchClient, app: Flask, sessions: sessionmaker[Session]
) -> None:
    own = batches.start([b"{}"], "validate")
    other = batches.start([b"{}"], "validate")
    with sessions.begin() as session:
        theirs = SupplierClient.create(app, sessions)
        foreign = BatchClient(theirs, batches.resources).start([b"{}"], "validate")
        supplier_id = session.get_one(Batch, foreign).import_supplier_id
        session.execute(update(Batch).where(Batch.id == other).values(import_supplier_id=supplier_id))
    answer = batches.supplier.get(f"/batches/{own}/comparison/{other}/")
    assert (answer.status_code, (answer.json or {})["code"]) == (400, "batches_not_comparable")
    for pair in ((own, foreign), (foreign, own), (own, uuid4()), (own, "..%2F1"), ("%00", own)):
        for ending in ("", "accounts/"):
            answer = batches.supplier.get(f"/batches/{pair[0]}/comparison/{pair[1]}/{ending}")
            assert answer.status_code == 404, pair


def test_lines_that_were_removed_cannot_be_compared(batches: BatchClient) -> None:
    first, second = (batches.run([b"{}"], "validate")["batch_id"] for _ in range(2))
    with batches.supplier.Session.begin() as session:
        batch = session.get_one(Batch, second)
        batch.lines_removed_at = batch.created_at
    answer = batches.supplier.get(f"/batches/{first}/comparison/{second}/")
    assert (answer.status_code, (answer.json or {})["code"]) == (400, "batch_state_conflict")
