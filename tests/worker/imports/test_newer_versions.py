"""A newer version of an account that was sent and not taken is never forgotten."""

import json
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session

from migration_service.db.sql import OpenTransaction
from migration_service.errors import ErrorItem
from migration_service.models import AccountImportProcess, Batch, ImportSupplier
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.retry import retry_failed
from migration_service.services.imports import states
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.reporting.retention import remove_error_texts, remove_payloads
from migration_service.states import SupplierStatus
from support.batch_client import BatchClient, counts
from support.interleavings import COMMIT, Run, Scenario, explore
from support.supplier_client import SupplierClient

UNKNOWN = "onbekend"
FEBRUARY, FIRST, SECOND, THIRD = (f"2026-{day}T22:00:00Z" for day in ("02-01", "03-01", "03-02", "03-03"))


@pytest.fixture
def account(supplier: SupplierClient) -> dict[str, Any]:
    """A valid payload with a customer and a ledger."""
    return next(it for it in supplier.accounts(50) if it.get("customers") and it.get("ledgers"))


def _corrected(account: dict[str, Any], **customer: Any) -> dict[str, Any]:
    """Return the account with another address, and its first customer with these values."""
    first, *others = account["customers"]
    return account | {"billing_address1": "Elsewhere 1", "customers": [first | customer, *others]}


def _create(batches: BatchClient, number: str) -> None:
    batches.supplier.process(number)
    perform_attempt(batches.supplier.Session, batches.supplier.current_attempt(number))


def _start_pending(batches: BatchClient, mode: str = "import", **arguments: Any) -> str:
    answer = batches.post(None, mode, source="pending", **arguments)
    assert answer.status_code == 202, answer.text
    return str(answer.json["batch_id"])  # type: ignore[index]


def _run_pending(batches: BatchClient, mode: str = "import", **arguments: Any) -> dict[str, Any]:
    batch_id = _start_pending(batches, mode, **arguments)
    batches.work()
    return batches.get(batch_id)


def _codes(items: list[dict[str, Any]]) -> list[str]:
    return [item["code"] for item in items]


def test_a_correction_that_is_refused_in_a_batch_keeps_the_older_version_from_being_created(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    refused = batches.run([_corrected(account, mobile=UNKNOWN)])
    (item,) = supplier.reconcile(f"?batch={refused['batch_id']}")["open"]
    assert (item["external_account_number"], item["reason"]) == (number, "STAGED_OLDER_VERSION")
    assert (item["batch_id"], item["line_number"]) == (refused["batch_id"], 1)
    assert _codes(item["errors"]) == ["invalid_phone_number"]

    pending = _run_pending(batches)
    assert (counts(pending), pending["older_versions"]) == ({}, 1)
    report = supplier.reconcile()
    assert (report["sent"]["open"], report["sent"]["staged_older_version"]) == (1, 1)

    corrected = batches.run([_corrected(account, mobile="")])
    assert counts(corrected) == {"IMPORTED": 1}
    assert (supplier.process_row(number).payload or {})["billing_address1"] == "Elsewhere 1"
    assert supplier.reconcile()["open"] == []


def test_a_correction_that_is_refused_singly_marks_the_account_until_a_payload_is_staged(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier = batches.supplier
    supplier.stage(account)
    assert supplier.stage(_corrected(account, mobile=UNKNOWN)).status_code == 400
    (item,) = supplier.reconcile()["open"]
    assert (item["reason"], item["batch_id"], item["line_number"]) == ("STAGED_OLDER_VERSION", None, None)
    assert [(it["code"], it["attr"]) for it in item["errors"]] == [
        ("invalid_phone_number", "customers.0.mobile")
    ]
    assert supplier.stage(account).json["result"] == "UNCHANGED"  # type: ignore[index]
    assert [it["reason"] for it in supplier.reconcile()["open"]] == ["STAGED"]


def test_what_is_refused_of_an_earlier_extract_is_no_newer_version(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    early, late = "2026-03-01T22:00:00Z", "2026-03-02T22:00:00Z"
    supplier.stage(account, extracted_at=late)
    broken = _corrected(account, mobile=UNKNOWN)
    assert supplier.stage(broken, extracted_at=early).status_code == 400
    assert counts(batches.run([broken], extracted_at=early)) == {"FAILED": 1}
    assert supplier.process_row(number).refused_at is None
    _create(batches, number)
    changed = batches.run([_corrected(account)], extracted_at=early)
    assert changed["warning_counts"]["payload_differs"] == 1
    assert supplier.process_row(number).refused_at is None
    supplier.stage(_corrected(account), extracted_at=late)
    assert supplier.process_row(number).refused_at is not None


def test_only_a_version_of_no_earlier_extract_than_the_refused_one_removes_the_mark(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier = batches.supplier
    broken = _corrected(account, mobile=UNKNOWN)
    supplier.stage(account, extracted_at=FIRST)
    assert supplier.stage(broken, extracted_at=THIRD).status_code == 400
    for result in ("REPLACED", "UNCHANGED"):
        answer = supplier.stage(_corrected(account), extracted_at=SECOND)
        assert answer.json["result"] == result  # type: ignore[index]
        pending = _run_pending(batches)
        assert (counts(pending), pending["older_versions"]) == ({}, 1)
        assert [it["reason"] for it in supplier.reconcile()["open"]] == ["STAGED_OLDER_VERSION"]
        supplier.stage(broken, extracted_at=SECOND)  # is refused, and no reason to forget the later one
    assert supplier.stage(_corrected(account), extracted_at=THIRD).json["result"] == "UNCHANGED"  # type: ignore[index]
    assert counts(_run_pending(batches)) == {"IMPORTED": 1}


def test_a_version_without_an_extract_is_the_newest_one_whether_it_is_taken_or_refused(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    broken = _corrected(account, mobile=UNKNOWN)
    supplier.stage(account, extracted_at=FIRST)
    supplier.stage(broken, extracted_at=THIRD)
    supplier.stage(broken)
    supplier.stage(account, extracted_at=SECOND)
    assert supplier.process_row(number).refused_at is not None
    supplier.stage(account)
    assert supplier.process_row(number).refused_at is None
    supplier.stage(broken)
    supplier.stage(account, extracted_at=SECOND)
    assert supplier.process_row(number).refused_at is None, "nobody said when the refused one was extracted"


@pytest.mark.parametrize(
    ("mode", "reason"), [("stage", "STAGED_OLDER_VERSION"), ("import", "CREATED_OLDER_VERSION")]
)
def test_a_late_retry_of_an_earlier_file_leaves_the_mark(
    batches: BatchClient, account: dict[str, Any], mode: str, reason: str
) -> None:
    supplier = batches.supplier
    broken = _corrected(account, mobile=UNKNOWN)
    batches.run([account], "stage", extracted_at=FIRST)
    assert counts(batches.run([broken], "stage", extracted_at=THIRD)) == {"FAILED": 1}
    retried = batches.run([account], mode, extracted_at=FIRST)
    assert retried["staging_counts"] == {"UNCHANGED": 1}
    assert [it["reason"] for it in supplier.reconcile()["open"]] == [reason]


@pytest.mark.parametrize("retried", [FIRST, FEBRUARY])
def test_a_late_retry_of_what_was_created_leaves_the_mark(
    batches: BatchClient, account: dict[str, Any], retried: str
) -> None:
    supplier = batches.supplier
    assert counts(batches.run([account], extracted_at=FIRST)) == {"IMPORTED": 1}
    changed = batches.run([_corrected(account)], extracted_at=THIRD)
    assert changed["warning_counts"]["payload_differs"] == 1
    for send in (supplier.stage, lambda payload, **query: batches.run([payload], **query)):
        send(account, extracted_at=retried)
        assert [it["reason"] for it in supplier.reconcile()["open"]] == ["CREATED_OLDER_VERSION"]
    supplier.stage(account, extracted_at=THIRD)
    assert supplier.reconcile()["open"] == []


@pytest.mark.parametrize("mode", ["stage", "import"])
@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_a_newer_version_on_a_line_without_an_outcome_is_open_until_a_later_one_is_taken(
    batches: BatchClient, account: dict[str, Any], mode: str, action: str
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    batches.run([account], "stage", extracted_at=FIRST)
    left = batches.start([_corrected(account)], mode, extracted_at=SECOND)
    assert batches.change(left, action).status_code == 200
    assert counts(_run_pending(batches)) == {"IMPORTED": 1}
    for query in ("", f"?batch={left}"):
        report = supplier.reconcile(query)
        (item,) = report["open"]
        assert (item["external_account_number"], item["reason"]) == (number, "WAITING")
        assert (item["batch_id"], item["line_number"]) == (left, 1)
        sent = report["sent"]
        assert [sent[it] for it in ("sent", "waiting", "staged", "created", "open")] == [1, 1, 0, 0, 1]
        assert (report["complete"], report["created_clean"]) == (False, True)
    batches.run([account], extracted_at=FIRST)  # is older than what waits
    assert [it["reason"] for it in supplier.reconcile()["open"]] == ["WAITING"]
    batches.run([account], extracted_at=THIRD)
    assert [supplier.reconcile(query)["open"] for query in ("", f"?batch={left}")] == [[], []]


def test_without_an_extract_a_waiting_version_is_settled_by_what_was_sent_after_it(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    reasons = []
    for later in (_corrected(account), _corrected(account, mobile=UNKNOWN)):
        batches.change(batches.start([_corrected(account)], "stage"), "cancel")
        reasons += [it["reason"] for it in supplier.reconcile()["open"]]
        supplier.stage(later)
        reasons += [it["reason"] for it in supplier.reconcile()["open"]]
    assert reasons == ["WAITING", "STAGED", "WAITING", "STAGED_OLDER_VERSION"]
    batches.change(batches.start([account], "stage"), "cancel")
    assert [it["reason"] for it in supplier.reconcile()["open"]] == ["WAITING"]
    supplier.post(
        f"/reconciliation/{supplier.code}/acknowledgements/",
        {"reason": "It was sent by mistake.", "external_account_numbers": [number]},
    )
    assert [it["reason"] for it in supplier.reconcile()["open"]] == ["STAGED_OLDER_VERSION"]


def test_of_an_account_that_differs_within_a_file_no_line_is_taken(batches: BatchClient) -> None:
    supplier = batches.supplier
    staged, new, same = supplier.accounts(3)
    supplier.stage(staged)
    lines = [staged, new, same, *(it | {"billing_address1": "Elsewhere 1"} for it in (staged, new)), same]
    sent = batches.run(lines)
    assert counts(sent) == {"IMPORTED": 1, "FAILED": 5}
    assert sent["error_counts"] == {"conflicting_lines_in_batch": 4, "duplicate_line_in_batch": 3}
    for query in ("", f"?batch={sent['batch_id']}"):
        assert [
            (it["external_account_number"], it["reason"], it["line_number"], _codes(it["errors"]))
            for it in supplier.reconcile(query)["open"]
        ] == [
            (it["external_account_number"], reason, line, ["conflicting_lines_in_batch"])
            for it, reason, line in ((staged, "STAGED_OLDER_VERSION", 1), (new, "REFUSED", 2))
        ]
    failed = supplier.get(f"/batches/{sent['batch_id']}/failed-lines/").data.splitlines()
    assert [json.loads(line) for line in failed] == [lines[0], lines[1], lines[3], lines[4]]
    batches.change(sent["batch_id"], "retry-failed")
    batches.work()
    assert counts(batches.get(sent["batch_id"])) == {"IMPORTED": 1, "FAILED": 5}
    assert counts(_run_pending(batches)) == {}


@pytest.mark.parametrize("mode", ["validate", "dry-run"])
def test_a_rehearsal_marks_nothing(batches: BatchClient, account: dict[str, Any], mode: str) -> None:
    batches.supplier.stage(account)
    assert counts(batches.run([_corrected(account, mobile=UNKNOWN)], mode)) == {"FAILED": 1}
    assert _run_pending(batches)["older_versions"] == 0


def test_what_names_no_account_of_the_supplier_marks_nothing(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier = batches.supplier
    other = SupplierClient.create(supplier.app, supplier.Session)
    supplier.stage(account)
    broken = _corrected(account, mobile=UNKNOWN)
    for payload in (
        broken | {"external_account_number": 7},
        broken | {"import_supplier": "nobody"},
        broken | {"import_supplier": ["a", "list"]},
        [broken],
        account,
    ):
        other.stage(payload)
        assert supplier.stage(payload).status_code in (200, 400)
    of_another = broken | {"import_supplier": other.code}
    batches.run([of_another, b"{", of_another], "stage")  # and a repetition
    assert supplier.process_row(account["external_account_number"]).refused_at is None


def test_an_older_version_is_created_if_somebody_asks_for_it_and_is_never_called_complete(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    _create(batches, number)
    sent = supplier.reconcile()["sent"]
    assert (sent["created"], sent["created_older_version"], sent["open"]) == (1, 1, 1)
    assert supplier.reconcile()["complete"] is False
    (item,) = supplier.reconcile()["open"]
    assert (item["reason"], _codes(item["errors"])) == ("CREATED_OLDER_VERSION", ["invalid_phone_number"])
    again = supplier.process(number)
    assert _codes(again.json["errors"]) == ["account_already_imported", "newer_version_refused"]  # type: ignore[index]

    acknowledged = supplier.post(
        f"/reconciliation/{supplier.code}/acknowledgements/",
        {"reason": "The number is corrected by hand.", "external_account_numbers": [number]},
    )
    assert acknowledged.status_code == 201, acknowledged.text
    assert supplier.reconcile()["open"] == []
    assert supplier.reconcile()["complete"] is True
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    assert supplier.reconcile()["sent"]["open"] == 1, "it was refused once more"


def test_a_batch_and_a_plan_take_older_versions_only_if_told_so(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    supplier.stage(account | {"external_account_number": "newest"})
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    body = {"import_supplier": supplier.code, "operations_team_name": supplier.team}
    listed = supplier.post("/wave-plans/", body | {"waves": [{"accounts": [number]}]})
    assert [(it["code"], it["attr"]) for it in listed.json["errors"]] == [  # type: ignore[index]
        ("newer_version_refused", "waves.0.accounts.0")
    ]
    plan: Any = supplier.post("/wave-plans/", body | {"waves": [{"sample": 10}]}).json
    assert (plan["older_versions"], plan["unplanned"], plan["waves"][0]["lines"]) == (1, 1, 1)
    supplier.post(f"/wave-plans/{plan['plan_id']}/waves/1/stop/", {"reason": "Another plan."})
    waves = [{"accounts": [number]}, {"rest": True}]
    plan = supplier.post("/wave-plans/", body | {"waves": waves, "include_older_versions": True}).json
    assert (plan["older_versions"], plan["unplanned"]) == (0, 0)

    rehearsed = _run_pending(batches, "dry-run", include_older_versions=True)
    assert (counts(rehearsed), rehearsed["older_versions"]) == ({"WOULD_IMPORT": 2}, 0)
    assert rehearsed["options"] == {"include_older_versions": True}
    answer = batches.post(b"", include_older_versions=True)
    (error,) = answer.json["errors"]  # type: ignore[index]
    assert (error["code"], error["attr"]) == ("invalid", "include_older_versions")


def test_a_correction_that_is_refused_after_the_batch_was_started_keeps_the_account_out_of_it(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier = batches.supplier
    supplier.stage(account)
    batch_id = _start_pending(batches)
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    batches.work()
    (line,) = batches.results(batch_id)
    assert (line["status"], _codes(line["errors"])) == ("FAILED", ["newer_version_refused"])
    supplier.stage(_corrected(account, mobile=""))
    assert batches.change(batch_id, "retry-failed").json["retried"] == 1  # type: ignore[index]
    batches.work()
    assert counts(batches.get(batch_id)) == {"IMPORTED": 1}
    assert supplier.reconcile()["open"] == []


def test_a_changed_book_that_is_sent_again_says_which_accounts_differ_and_where(
    batches: BatchClient, supplier: SupplierClient
) -> None:
    book = [it for it in supplier.accounts(40) if it.get("customers") and it.get("ledgers")][:6]
    assert counts(batches.run(book)) == {"IMPORTED": 6}
    changed = [it | {"billing_address1": "Elsewhere 1"} for it in book[:2]]
    ledger = book[2]["ledgers"][0]
    respelt = book[2] | {"ledgers": [ledger | {"ledger_balance": f"{ledger['ledger_balance']}0"}]}
    other_order = dict(reversed(book[3].items()))
    report = batches.run([*changed, respelt, other_order, *book[4:]])
    assert counts(report) == {"ALREADY_IMPORTED": 6}
    assert report["warning_counts"]["payload_differs"] == 2
    found = batches.results(report["batch_id"], "?status=ALREADY_IMPORTED&code=payload_differs")
    assert [it["line_number"] for it in found] == [1, 2]
    for line in found:
        differing = [it for it in line["warnings"] if it["code"] == "payload_differs"]
        assert [it["attr"] for it in differing] == ["billing_address1"]
        assert "Elsewhere" not in differing[0]["detail"]
    csv = supplier.get(
        f"/batches/{report['batch_id']}/results/?code=payload_differs", headers={"Accept": "text/csv"}
    )
    assert csv.text.count("payload_differs") == 2
    assert csv.text.count("Elsewhere 1") == 2
    sent = supplier.reconcile(f"?batch={report['batch_id']}")["sent"]
    assert (sent["created_older_version"], sent["open"]) == (2, 2)

    assert counts(batches.run(book[:1])) == {"ALREADY_IMPORTED": 1}
    assert supplier.reconcile()["sent"]["open"] == 1, "what was created is the newest version once more"


def test_a_changed_account_that_is_staged_again_singly_says_where_it_differs(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    _create(batches, number)
    assert _codes(supplier.stage(account).json["errors"]) == ["account_already_imported"]  # type: ignore[index]
    changed = _corrected(account, given_name="Somebody else", family_name="Other")
    changed["customers"] = [*changed["customers"], {"given_name": "One", "family_name": "More"}]
    answer = supplier.stage(changed)
    found = {it["attr"] for it in answer.json["errors"] if it["code"] == "payload_differs"}  # type: ignore[index]
    expected = {"billing_address1", "customers.0.given_name", "customers.0.family_name"}
    assert found == expected | {f"customers.{len(account['customers'])}"}
    assert "Somebody else" not in answer.text
    again = supplier.process(number)
    assert found == {it["attr"] for it in again.json["errors"] if it["code"] == "payload_differs"}  # type: ignore[index]
    supplier.stage(account)
    assert _codes(supplier.process(number).json["errors"]) == ["account_already_imported"]  # type: ignore[index]


def test_a_payload_with_many_differences_lists_the_first_ones(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    account["customers"][0]["user_details"] = [{"namespace": f"n{n}", "value": "1"} for n in range(30)]
    batches.run([account])
    account["customers"][0]["user_details"] = [{"namespace": f"n{n}", "value": "2"} for n in range(30)]
    answer = batches.supplier.stage(account)
    differing = [it for it in answer.json["errors"] if it["code"] == "payload_differs"]  # type: ignore[index]
    assert [it["attr"] for it in differing][19:] == ["customers.0.user_details.19.value", None]


def test_what_was_removed_after_its_time_cannot_be_compared_and_is_said_so(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    batches.run([account])
    supplier.stage(_corrected(account))
    with supplier.Session.begin() as session:
        session.execute(
            text("UPDATE account_import_process SET account_created_at = now() - interval '9 days'")
        )
        assert remove_payloads(session, after_days=8) == 1
    process = supplier.process_row(number)
    assert (process.refused_errors, process.refused_at is None) == (None, False)
    unchanged, changed = (supplier.stage(it).json["errors"] for it in (account, _corrected(account)))  # type: ignore[index]
    assert _codes(unchanged) == ["account_already_imported"]
    assert [(it["code"], it["attr"]) for it in changed[1:]] == [("payload_differs", None)]
    assert "no longer kept" in changed[1]["detail"]


def test_the_errors_of_a_version_that_was_not_taken_are_removed_after_their_time(
    supplier: SupplierClient, account: dict[str, Any]
) -> None:
    supplier.stage(account)
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    with supplier.Session.begin() as session:
        assert remove_error_texts(session, after_days=8) == 0
        session.execute(text("UPDATE account_import_process SET refused_at = now() - interval '9 days'"))
        assert remove_error_texts(session, after_days=8) == 1
    (item,) = supplier.reconcile()["open"]
    assert (item["reason"], item["errors"]) == ("STAGED_OLDER_VERSION", None)


def test_an_account_that_was_erased_is_never_marked(batches: BatchClient, account: dict[str, Any]) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    batches.run([account])
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    names = {"import_supplier": supplier.code, "external_account_number": number}
    supplier.post("/account-import-process/erase/", names | {"reason": "Request 1"})
    assert supplier.process_row(number).refused_errors is None
    batches.run([_corrected(account)])
    supplier.stage(_corrected(account, mobile=UNKNOWN))
    assert _codes(supplier.stage(_corrected(account)).json["errors"]) == ["account_already_imported"]  # type: ignore[index]
    assert supplier.reconcile()["open"] == []


def test_an_undo_leaves_the_mark_so_that_the_older_version_is_not_created_again(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    batches.run([account])
    supplier.stage(_corrected(account))
    with supplier.Session.begin() as session:
        process = session.scalars(select(AccountImportProcess).where(supplier.process_of(number))).one()
        states.revert(OpenTransaction.of(session), [process.id])
    assert _run_pending(batches)["older_versions"] == 1
    assert supplier.stage(_corrected(account)).json["result"] == "REPLACED"  # type: ignore[index]
    assert _run_pending(batches, "dry-run")["older_versions"] == 0


@pytest.mark.parametrize("reason", ["import_supplier_paused", "account_marked_to_skip"])
def test_a_newer_version_that_came_at_the_wrong_time_is_not_forgotten(
    batches: BatchClient, account: dict[str, Any], reason: str
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    with supplier.Session.begin() as session:
        supplier_id = supplier.known().id
        if reason == "account_marked_to_skip":
            skip_accounts(session, supplier_id, [number])
    if reason == "import_supplier_paused":
        supplier.set_status(SupplierStatus.PAUSED)
    assert supplier.stage(account).json["code"] == reason  # type: ignore[index]
    assert supplier.process_row(number).refused_at is None, "it is what is staged"
    assert supplier.stage(_corrected(account)).json["code"] == reason  # type: ignore[index]
    supplier.set_status(SupplierStatus.ONGOING)
    if reason == "account_marked_to_skip":
        with supplier.Session.begin() as session:
            unskip_accounts(session, supplier_id, [number])
    assert [_codes(it["errors"]) for it in supplier.reconcile()["open"]] == [[reason]]


def test_a_correction_that_is_refused_while_the_account_is_created_marks_it_in_every_order(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier = batches.supplier
    known = supplier.known()
    rounds = count()

    def scenario() -> Scenario:
        number = f"created-{next(rounds)}"
        supplier.stage(account | {"external_account_number": number})
        attempt = supplier.attempt_of(number)
        refused = RefusedVersion(number, [ErrorItem("invalid_phone_number", "Wrong.", "customers.0.mobile")])

        def begin(session: Session) -> bool:
            return states.start(OpenTransaction.of(session), attempt, durable=True)

        def note(session: Session) -> None:
            note_refused(OpenTransaction.of(session), known.id, [refused])

        def check(run: Run) -> None:
            assert run.errors == {}
            assert run.results["request.begin"] is True
            assert supplier.process_row(number).refused_at is not None

        return Scenario(
            {"request": [("begin", begin), COMMIT], "correction": [("note", note), COMMIT]}, check
        )

    assert explore(supplier.Session, scenario) > 2


@pytest.fixture
def failed(batches: BatchClient, account: dict[str, Any]) -> str:
    """A batch of mode import, whose line would pass if it were retried now."""
    _set_profile(batches.supplier, "strict")
    batch_id = str(batches.run([account | {"billing_postcode": "nowhere"}])["batch_id"])
    assert counts(batches.get(batch_id)) == {"FAILED": 1}
    _set_profile(batches.supplier, "lenient")
    return batch_id


def _set_profile(supplier: SupplierClient, profile: str) -> None:
    with supplier.Session.begin() as session:
        session.execute(
            update(ImportSupplier).where(ImportSupplier.code == supplier.code).values(profile=profile)
        )


def _retry(batches: BatchClient, batch_id: str) -> dict[str, Any]:
    """Retry every failed line of a batch. Return the result of its only line."""
    answer = batches.supplier.post(f"/batches/{batch_id}/retry-failed/?all=true")
    assert (answer.json or {})["retried"] == 1, answer.text
    batches.work()
    (line,) = batches.results(batch_id)
    return line


def test_a_retry_does_not_replace_what_was_staged_since(
    batches: BatchClient, account: dict[str, Any], failed: str
) -> None:
    number = account["external_account_number"]
    assert batches.supplier.stage(_corrected(account)).status_code == 201
    before = batches.supplier.process_row(number)
    for _again in range(2):
        line = _retry(batches, failed)
        assert (line["status"], _codes(line["errors"])) == ("FAILED", ["newer_version_staged"])
    after = batches.supplier.process_row(number)
    assert (after.payload, after.state, after.refused_at) == (before.payload, "PENDING", None)
    assert batches.run([account | {"billing_postcode": "nowhere"}])["counts"]["IMPORTED"] == 1


def test_a_retry_does_not_mark_what_was_created_since_as_older(
    batches: BatchClient, account: dict[str, Any], failed: str
) -> None:
    number = account["external_account_number"]
    batches.supplier.stage(_corrected(account))
    _create(batches, number)
    line = _retry(batches, failed)
    assert (line["status"], {*_codes(line["warnings"])} >= {"payload_differs"}) == ("ALREADY_IMPORTED", True)
    assert batches.supplier.process_row(number).refused_at is None


def test_a_line_that_fails_again_does_not_mark_what_was_staged_since_as_older(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    batch_id = str(batches.run([_corrected(account, mobile=UNKNOWN)])["batch_id"])
    batches.supplier.stage(account)
    line = _retry(batches, batch_id)
    assert (line["status"], _codes(line["errors"])) == ("FAILED", ["invalid_phone_number"])
    assert batches.supplier.process_row(account["external_account_number"]).refused_at is None


def test_a_retry_creates_nothing_of_which_a_newer_version_was_refused_since(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    supplier, number = batches.supplier, account["external_account_number"]
    supplier.stage(account)
    supplier.process(number)
    batch_id = str(batches.run([account])["batch_id"])
    assert batches.get(batch_id)["error_counts"] == {"account_import_in_progress": 1}
    with supplier.Session.begin() as session:
        session.execute(
            update(AccountImportProcess)
            .where(supplier.process_of(number))
            .values(state="PENDING", attempt_id=None)
        )
    assert supplier.stage(_corrected(account, mobile=UNKNOWN)).status_code == 400
    marked = supplier.process_row(number)
    line = _retry(batches, batch_id)
    assert (line["status"], _codes(line["errors"])) == ("FAILED", ["newer_version_refused"])
    kept = supplier.process_row(number)
    assert (kept.refused_at, kept.refused_errors) == (marked.refused_at, marked.refused_errors)
    assert (kept.state, kept.refused_at is not None) == ("PENDING", True)


@pytest.mark.parametrize(
    ("own", "staged", "status"),
    [(SECOND, FIRST, "IMPORTED"), (FIRST, SECOND, "FAILED"), (FIRST, None, "FAILED")],
)
def test_extracts_decide_which_version_a_retry_takes(
    batches: BatchClient, account: dict[str, Any], own: str, staged: str | None, status: str
) -> None:
    _set_profile(batches.supplier, "strict")
    report = batches.run([account | {"billing_postcode": "nowhere"}], extracted_at=own)
    _set_profile(batches.supplier, "lenient")
    batches.supplier.stage(_corrected(account), **({"extracted_at": staged} if staged else {}))
    line = _retry(batches, str(report["batch_id"]))
    assert line["status"] == status
    assert _codes(line["errors"]) == (["newer_version_staged"] if status == "FAILED" else [])


def test_the_retry_of_another_line_makes_no_line_younger(
    batches: BatchClient, account: dict[str, Any]
) -> None:
    other = batches.supplier.accounts(51)[-1]
    _set_profile(batches.supplier, "strict")
    report = batches.run([it | {"billing_postcode": "nowhere"} for it in (account, other)])
    _set_profile(batches.supplier, "lenient")
    batches.supplier.stage(_corrected(account))
    for place in (2, 1):
        with batches.supplier.Session.begin() as session:
            batch = session.get_one(Batch, UUID(report["batch_id"]))
            assert retry_failed(session, batch, ResultFilter(line=place), everything=True).retried == 1
        batches.work()
    lines = batches.results(report["batch_id"])
    assert [(it["status"], _codes(it["errors"])) for it in lines] == [
        ("FAILED", ["newer_version_staged"]),
        ("IMPORTED", []),
    ]
