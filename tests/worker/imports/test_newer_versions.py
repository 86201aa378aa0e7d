"""A newer version of an account that was sent and not taken is never forgotten."""

import json
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, update
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from migration_service.db.sql import OpenTransaction
from migration_service.errors import ErrorItem
from migration_service.models import AccountImportProcess, Batch, ImportSupplier
from migration_service.services.batches.results.line_results import ResultFilter
from migration_service.services.batches.retry import retry_failed
from migration_service.services.imports import states
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused
from migration_service.services.imports.skipping import skip_accounts, unskip_accounts
from migration_service.services.reporting.retention import remove_error_texts, remove_payloads
from migration_service.services.setup.suppliers import set_status
from migration_service.states import SupplierStatus
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient, counts
from support.factories import json_of
from support.imported_account import codes_of
from support.interleavings import COMMIT, Script, explore
from support.supplier_client import SupplierClient
from support.wave_client import WaveClient

pytestmark = pytest.mark.usefixtures("neighbour")

UNKNOWN = "onbekend"
FEBRUARY, FIRST, SECOND, THIRD = (f"2026-{day}T22:00:00Z" for day in ("02-01", "03-01", "03-02", "03-03"))


class Sent(BatchClient):
    """The batches of a supplier, and an account of it that is sent in several versions."""

    def __init__(self, supplier: SupplierClient, resources: WorkerResources) -> None:
        super().__init__(supplier, resources)
        self.stage, self.reconcile = supplier.stage, supplier.reconcile
        self.account = next(it for it in supplier.accounts(50) if it.get("customers") and it.get("ledgers"))
        self.number = str(self.account["external_account_number"])
        self.broken = self.corrected(mobile=UNKNOWN)

    def corrected(self, **customer: Any) -> dict[str, Any]:
        """Return the account with another address, and its first customer with these values."""
        first, *others = self.account["customers"]
        return self.account | {"billing_address1": "Elsewhere 1", "customers": [first | customer, *others]}

    def row(self) -> AccountImportProcess:
        return self.supplier.process_row(self.number)

    def address(self) -> str:
        return str((self.row().payload or {})["billing_address1"])

    def reasons(self) -> list[str]:
        """Return why each account of the supplier that is open is so."""
        return [it["reason"] for it in self.reconcile()["open"]]

    def acknowledge(self) -> TestResponse:
        body = {"reason": "It was sent by mistake.", "external_account_numbers": [self.number]}
        return self.supplier.post(f"/reconciliation/{self.supplier.code}/acknowledgements/", body)

    def create(self) -> None:
        self.supplier.process(self.number)
        self.supplier.work(self.resources, self.number)

    def start_pending(self, mode: str = "import", **arguments: Any) -> str:
        answer = self.post(None, mode, source="pending", **arguments)
        assert answer.status_code == 202, answer.text
        return str(json_of(answer)["batch_id"])

    def run_pending(self, mode: str = "import", **arguments: Any) -> dict[str, Any]:
        batch_id = self.start_pending(mode, **arguments)
        self.work()
        return self.get(batch_id)

    def outcomes(self, batch_id: str) -> list[tuple[str, list[str]]]:
        """Return the status of each line of a batch, and the codes of its errors."""
        return [(line["status"], _codes(line["errors"])) for line in self.results(batch_id)]

    def retry(self, batch_id: str) -> tuple[str, list[str]]:
        """Retry the only line of a batch, which has failed. Return its outcome."""
        answer = self.supplier.post(f"/batches/{batch_id}/retry-failed/?all=true")
        assert json_of(answer)["retried"] == 1, answer.text
        self.work()
        (outcome,) = self.outcomes(batch_id)
        return outcome

    def fail(self, *accounts: dict[str, Any], **arguments: Any) -> str:
        """Run a batch of mode import, whose lines would pass if they were retried now. Return its id."""
        self._set_profile("strict")
        report = self.run([it | {"billing_postcode": "nowhere"} for it in accounts], **arguments)
        assert counts(report) == {"FAILED": len(accounts)}
        self._set_profile("lenient")
        return str(report["batch_id"])

    def _set_profile(self, profile: str) -> None:
        with self.supplier.Session.begin() as session:
            this = update(ImportSupplier).where(ImportSupplier.code == self.supplier.code)
            session.execute(this.values(profile=profile))


@pytest.fixture
def sent(supplier: SupplierClient, worker_resources: WorkerResources) -> Sent:
    return Sent(supplier, worker_resources)


def _codes(items: list[dict[str, Any]]) -> list[str]:
    return [item["code"] for item in items]


def _differing(errors: list[dict[str, Any]]) -> list[str]:
    return [it["attr"] for it in errors if it["code"] == "payload_differs"]


def test_a_correction_refused_in_a_batch_keeps_the_older_version_from_being_created(sent: Sent) -> None:
    sent.stage(sent.account)
    refused = sent.run([sent.broken])
    (item,) = sent.reconcile(f"?batch={refused['batch_id']}")["open"]
    assert (item["external_account_number"], item["reason"]) == (sent.number, "STAGED_OLDER_VERSION")
    assert (item["batch_id"], item["line_number"]) == (refused["batch_id"], 1)
    assert _codes(item["errors"]) == ["invalid_phone_number"]
    pending = sent.run_pending()
    assert (counts(pending), pending["older_versions"]) == ({}, 1)
    compared = sent.reconcile()["sent"]
    assert (compared["open"], compared["staged_older_version"]) == (1, 1)
    assert counts(sent.run([sent.corrected(mobile="")])) == {"IMPORTED": 1}
    assert (sent.row().payload or {})["billing_address1"] == "Elsewhere 1"
    assert sent.reconcile()["open"] == []


def test_a_correction_refused_singly_marks_the_account_until_a_payload_is_staged(sent: Sent) -> None:
    sent.stage(sent.account)
    assert sent.stage(sent.broken).status_code == 400
    (item,) = sent.reconcile()["open"]
    assert (item["reason"], item["batch_id"], item["line_number"]) == ("STAGED_OLDER_VERSION", None, None)
    (error,) = item["errors"]
    assert (error["code"], error["attr"]) == ("invalid_phone_number", "customers.0.mobile")
    assert json_of(sent.stage(sent.account))["result"] == "UNCHANGED"
    assert sent.reasons() == ["STAGED"]


def test_what_is_refused_of_an_earlier_extract_is_no_newer_version(sent: Sent) -> None:
    sent.stage(sent.account, extracted_at=SECOND)
    assert sent.stage(sent.broken, extracted_at=FIRST).status_code == 400
    assert counts(sent.run([sent.broken], extracted_at=FIRST)) == {"FAILED": 1}
    assert sent.row().refused_at is None
    sent.create()
    changed = sent.run([sent.corrected()], extracted_at=FIRST)
    assert changed["warning_counts"]["payload_differs"] == 1
    assert sent.row().refused_at is None
    sent.stage(sent.corrected(), extracted_at=SECOND)
    assert sent.row().refused_at is not None


def test_only_a_version_of_no_earlier_extract_than_the_refused_one_removes_the_mark(sent: Sent) -> None:
    sent.stage(sent.account, extracted_at=FIRST)
    assert sent.stage(sent.broken, extracted_at=THIRD).status_code == 400
    for result in ("REPLACED", "UNCHANGED"):
        assert json_of(sent.stage(sent.corrected(), extracted_at=SECOND))["result"] == result
        pending = sent.run_pending()
        assert (counts(pending), pending["older_versions"]) == ({}, 1)
        assert sent.reasons() == ["STAGED_OLDER_VERSION"]
        sent.stage(sent.broken, extracted_at=SECOND)  # is refused, and no reason to forget the later one
    assert json_of(sent.stage(sent.corrected(), extracted_at=THIRD))["result"] == "UNCHANGED"
    assert counts(sent.run_pending()) == {"IMPORTED": 1}


def test_a_version_without_an_extract_is_the_newest_one_whether_it_is_taken_or_refused(sent: Sent) -> None:
    sent.stage(sent.account, extracted_at=FIRST)
    sent.stage(sent.broken, extracted_at=THIRD)
    sent.stage(sent.broken)
    sent.stage(sent.account, extracted_at=SECOND)
    assert sent.row().refused_at is not None
    sent.stage(sent.account)
    assert sent.row().refused_at is None
    sent.stage(sent.broken)
    sent.stage(sent.account, extracted_at=SECOND)
    assert sent.row().refused_at is None, "nobody said when the refused one was extracted"


def test_a_late_retry_of_an_earlier_file_leaves_the_mark(sent: Sent) -> None:
    sent.run([sent.account], "stage", extracted_at=FIRST)
    assert counts(sent.run([sent.broken], "stage", extracted_at=THIRD)) == {"FAILED": 1}
    for mode, reason in (("stage", "STAGED_OLDER_VERSION"), ("import", "CREATED_OLDER_VERSION")):
        assert sent.run([sent.account], mode, extracted_at=FIRST)["staging_counts"] == {"UNCHANGED": 1}
        assert sent.reasons() == [reason]


@pytest.mark.parametrize("retried", [FIRST, FEBRUARY])
def test_a_late_retry_of_what_was_created_leaves_the_mark(sent: Sent, retried: str) -> None:
    assert counts(sent.run([sent.account], extracted_at=FIRST)) == {"IMPORTED": 1}
    changed = sent.run([sent.corrected()], extracted_at=THIRD)
    assert changed["warning_counts"]["payload_differs"] == 1
    for send in (sent.stage, lambda payload, **query: sent.run([payload], **query)):
        send(sent.account, extracted_at=retried)
        assert sent.reasons() == ["CREATED_OLDER_VERSION"]
    sent.stage(sent.account, extracted_at=THIRD)
    assert sent.reconcile()["open"] == []


@pytest.mark.parametrize("mode", ["stage", "import"])
@pytest.mark.parametrize("action", ["pause", "cancel"])
def test_a_newer_version_on_a_line_without_an_outcome_is_open_until_a_later_one_is_taken(
    sent: Sent, mode: str, action: str
) -> None:
    sent.run([sent.account], "stage", extracted_at=FIRST)
    left = sent.start([sent.corrected()], mode, extracted_at=SECOND)
    assert sent.change(left, action).status_code == 200
    assert counts(sent.run_pending()) == {"IMPORTED": 1}
    for query in ("", f"?batch={left}"):
        report = sent.reconcile(query)
        (item,) = report["open"]
        found = [item[it] for it in ("external_account_number", "reason", "batch_id", "line_number")]
        assert found == [sent.number, "WAITING", left, 1]
        compared = [report["sent"][it] for it in ("sent", "waiting", "staged", "created", "open")]
        assert compared == [1, 0, 0, 1, 1]
        assert (report["complete"], report["created_clean"]) == (False, True)
    sent.run([sent.account], extracted_at=FIRST)  # is older than what waits
    assert sent.reasons() == ["WAITING"]
    sent.run([sent.account], extracted_at=THIRD)
    assert [sent.reconcile(query)["open"] for query in ("", f"?batch={left}")] == [[], []]


def test_without_an_extract_a_waiting_version_is_settled_by_what_was_sent_after_it(sent: Sent) -> None:
    sent.stage(sent.account)
    reasons = []
    for later in (sent.corrected(), sent.broken):
        sent.change(sent.start([sent.corrected()], "stage"), "cancel")
        reasons += sent.reasons()
        sent.stage(later)
        reasons += sent.reasons()
    assert reasons == ["WAITING", "STAGED", "WAITING", "STAGED_OLDER_VERSION"]
    sent.change(sent.start([sent.account], "stage"), "cancel")
    assert sent.reasons() == ["WAITING"]
    sent.acknowledge()
    assert sent.reasons() == ["STAGED_OLDER_VERSION"]
    sent.change(sent.start([sent.account], "stage"), "cancel")
    assert sent.reasons() == ["WAITING"], "it has waited since after the acknowledgement"


@pytest.mark.parametrize("is_created", [False, True])
@pytest.mark.parametrize("singly", [True, False])
def test_a_waiting_version_is_settled_by_the_first_one_sent_again(
    sent: Sent, *, singly: bool, is_created: bool
) -> None:
    """The waiting one is then the older one: its batch neither stages it nor marks the account."""
    sent.run([sent.account], "import" if is_created else "stage")
    waiting = sent.start([sent.corrected()], "stage")
    sent.change(waiting, "pause")
    assert sent.reasons() == ["WAITING"]
    if singly:
        sent.stage(sent.account)
    else:
        sent.run([sent.account], "stage")
    settled = [] if is_created else ["STAGED"]
    assert sent.reasons() == settled
    sent.change(waiting, "resume")
    sent.work()
    outcome = ("ALREADY_IMPORTED", ["account_already_imported"]) if is_created else None
    assert sent.outcomes(waiting) == [outcome or ("FAILED", ["newer_version_staged"])]
    assert sent.address() == sent.account["billing_address1"]
    assert (sent.reasons(), sent.row().refused_at) == (settled, None)


@pytest.mark.parametrize("first_is_refused", [False, True])
@pytest.mark.parametrize("first_is_done_first", [True, False])
def test_of_two_files_the_later_one_counts_in_whatever_order_their_lines_are_done(
    sent: Sent, *, first_is_done_first: bool, first_is_refused: bool
) -> None:
    versions = [sent.broken if first_is_refused else sent.account, sent.corrected()]
    both = [sent.start([version], "stage") for version in versions]
    for batch_id in both:
        sent.change(batch_id, "pause")
    for batch_id in both if first_is_done_first else reversed(both):
        sent.change(batch_id, "resume")
        sent.work()
    assert (sent.address(), sent.row().refused_at) == ("Elsewhere 1", None)
    assert sent.reasons() == ["STAGED"]
    assert sent.outcomes(both[1]) == [("STAGED", [])]


def test_of_an_account_that_differs_within_a_file_no_line_is_taken(sent: Sent) -> None:
    staged, new, same = sent.supplier.accounts(3)
    sent.stage(staged)
    lines = [staged, new, same, *(it | {"billing_address1": "Elsewhere 1"} for it in (staged, new)), same]
    report = sent.run(lines)
    batch_id = report["batch_id"]
    assert counts(report) == {"IMPORTED": 1, "FAILED": 5}
    assert report["error_counts"] == {"conflicting_lines_in_batch": 4, "duplicate_line_in_batch": 3}
    for query in ("", f"?batch={batch_id}"):
        assert [
            (it["external_account_number"], it["reason"], it["line_number"], *_codes(it["errors"]))
            for it in sent.reconcile(query)["open"]
        ] == [
            (staged["external_account_number"], "STAGED_OLDER_VERSION", 1, "conflicting_lines_in_batch"),
            (new["external_account_number"], "REFUSED", 2, "conflicting_lines_in_batch"),
        ]
    failed = sent.supplier.get(f"/batches/{batch_id}/failed-lines/").data.splitlines()
    assert [json.loads(line) for line in failed] == [lines[0], lines[1], lines[3], lines[4]]
    sent.change(batch_id, "retry-failed")
    sent.work()
    assert counts(sent.get(batch_id)) == {"IMPORTED": 1, "FAILED": 5}
    assert counts(sent.run_pending()) == {}


@pytest.mark.parametrize("mode", ["validate", "dry-run"])
def test_a_rehearsal_marks_nothing(sent: Sent, mode: str) -> None:
    sent.stage(sent.account)
    assert counts(sent.run([sent.broken], mode)) == {"FAILED": 1}
    assert sent.run_pending()["older_versions"] == 0


def test_what_names_no_account_of_the_supplier_marks_nothing(sent: Sent) -> None:
    other = SupplierClient.create(sent.supplier.app, sent.supplier.Session)
    sent.stage(sent.account)
    for payload in (
        sent.broken | {"external_account_number": 7},
        sent.broken | {"import_supplier": "nobody"},
        sent.broken | {"import_supplier": ["a", "list"]},
        [sent.broken],
        sent.account,
    ):
        other.stage(payload)
        assert sent.stage(payload).status_code in (200, 400)
    of_another = sent.broken | {"import_supplier": other.code}
    sent.run([of_another, b"{", of_another], "stage")  # and a repetition
    assert sent.row().refused_at is None


def test_an_older_version_is_created_if_somebody_asks_for_it_and_is_never_called_complete(sent: Sent) -> None:
    sent.stage(sent.account)
    sent.stage(sent.broken)
    sent.create()
    report = sent.reconcile()
    assert [report["sent"][it] for it in ("created", "created_older_version", "open")] == [1, 1, 1]
    assert report["complete"] is False
    (item,) = report["open"]
    assert (item["reason"], _codes(item["errors"])) == ("CREATED_OLDER_VERSION", ["invalid_phone_number"])
    again = sent.supplier.process(sent.number)
    assert _codes(json_of(again)["errors"]) == ["account_already_imported", "newer_version_refused"]
    assert sent.acknowledge().status_code == 201
    report = sent.reconcile()
    assert (report["open"], report["complete"]) == ([], True)
    sent.stage(sent.broken)
    assert sent.reconcile()["sent"]["open"] == 1, "it was refused once more"


def test_a_batch_and_a_plan_take_older_versions_only_if_told_so(sent: Sent) -> None:
    sent.stage(sent.account)
    sent.stage(sent.account | {"external_account_number": "newest"})
    sent.stage(sent.broken)
    waves = WaveClient(sent)
    listed = waves.post_plan({"accounts": [sent.number]})
    assert codes_of(listed) == [("waves.0.accounts.0", "newer_version_refused")]
    plan = waves.plan({"sample": 10})
    assert (plan["older_versions"], plan["unplanned"], plan["waves"][0]["lines"]) == (1, 1, 1)
    waves.act(plan, 1, "stop", reason="Another plan.")
    plan = waves.plan({"accounts": [sent.number]}, {"rest": True}, include_older_versions=True)
    assert (plan["older_versions"], plan["unplanned"]) == (0, 0)
    rehearsed = sent.run_pending("dry-run", include_older_versions=True)
    assert (counts(rehearsed), rehearsed["older_versions"]) == ({"WOULD_IMPORT": 2}, 0)
    assert rehearsed["options"] == {"include_older_versions": True}
    assert codes_of(sent.post(b"", include_older_versions=True)) == [("include_older_versions", "invalid")]


def test_a_correction_refused_after_the_batch_was_started_keeps_the_account_out_of_it(sent: Sent) -> None:
    sent.stage(sent.account)
    batch_id = sent.start_pending()
    sent.stage(sent.broken)
    sent.work()
    assert sent.outcomes(batch_id) == [("FAILED", ["newer_version_refused"])]
    sent.stage(sent.corrected(mobile=""))
    assert json_of(sent.change(batch_id, "retry-failed"))["retried"] == 1
    sent.work()
    assert counts(sent.get(batch_id)) == {"IMPORTED": 1}
    assert sent.reconcile()["open"] == []


def test_a_changed_book_that_is_sent_again_says_which_accounts_differ_and_where(sent: Sent) -> None:
    book = [it for it in sent.supplier.accounts(40) if it.get("customers") and it.get("ledgers")][:6]
    assert counts(sent.run(book)) == {"IMPORTED": 6}
    changed = [it | {"billing_address1": "Elsewhere 1"} for it in book[:2]]
    ledger = book[2]["ledgers"][0]
    respelt = book[2] | {"ledgers": [ledger | {"ledger_balance": f"{ledger['ledger_balance']}0"}]}
    other_order = dict(reversed(book[3].items()))
    report = sent.run([*changed, respelt, other_order, *book[4:]])
    assert counts(report) == {"ALREADY_IMPORTED": 6}
    assert report["warning_counts"]["payload_differs"] == 2
    found = sent.results(report["batch_id"], "?status=ALREADY_IMPORTED&code=payload_differs")
    assert [it["line_number"] for it in found] == [1, 2]
    for line in found:
        assert _differing(line["warnings"]) == ["billing_address1"]
        assert not any("Elsewhere" in it["detail"] for it in line["warnings"])
    path = f"/batches/{report['batch_id']}/results/?code=payload_differs"
    csv = sent.supplier.get(path, headers={"Accept": "text/csv"}).text
    assert (csv.count("payload_differs"), csv.count("Elsewhere 1")) == (2, 2)
    compared = sent.reconcile(f"?batch={report['batch_id']}")["sent"]
    assert (compared["created_older_version"], compared["open"]) == (2, 2)
    assert counts(sent.run(book[:1])) == {"ALREADY_IMPORTED": 1}
    assert sent.reconcile()["sent"]["open"] == 1, "what was created is the newest version once more"


def test_a_changed_account_that_is_staged_again_singly_says_where_it_differs(sent: Sent) -> None:
    sent.stage(sent.account)
    sent.create()
    assert _codes(json_of(sent.stage(sent.account))["errors"]) == ["account_already_imported"]
    changed = sent.corrected(given_name="Somebody else", family_name="Other")
    changed["customers"] = [*changed["customers"], {"given_name": "One", "family_name": "More"}]
    answer = sent.stage(changed)
    expected = {"billing_address1", "customers.0.given_name", "customers.0.family_name"}
    expected.add(f"customers.{len(sent.account['customers'])}")
    assert "Somebody else" not in answer.text
    for refused in (answer, sent.supplier.process(sent.number)):
        assert set(_differing(json_of(refused)["errors"])) == expected
    sent.stage(sent.account)
    assert _codes(json_of(sent.supplier.process(sent.number))["errors"]) == ["account_already_imported"]


def test_a_payload_with_many_differences_lists_the_first_ones(sent: Sent) -> None:
    details = [{"namespace": f"n{n}", "value": "1"} for n in range(30)]
    sent.run([sent.corrected(user_details=details)])
    changed = sent.corrected(user_details=[it | {"value": "2"} for it in details])
    differing = _differing(json_of(sent.stage(changed))["errors"])
    assert differing[19:] == ["customers.0.user_details.19.value", None]


def test_what_was_removed_after_its_time_cannot_be_compared_and_is_said_so(sent: Sent) -> None:
    sent.run([sent.account])
    sent.stage(sent.corrected())
    with sent.supplier.Session.begin() as session:
        long_ago = func.now() - timedelta(days=9)
        session.execute(update(AccountImportProcess).values(account_created_at=long_ago))
        assert remove_payloads(session, after_days=8)
    process = sent.row()
    assert (process.refused_errors, process.refused_at is None) == (None, False)
    unchanged, changed = (json_of(sent.stage(it))["errors"] for it in (sent.account, sent.corrected()))
    assert _codes(unchanged) == ["account_already_imported"]
    assert [(it["code"], it["attr"]) for it in changed[1:]] == [("payload_differs", None)]
    assert "no longer kept" in changed[1]["detail"]


def test_the_errors_of_a_version_that_was_not_taken_are_removed_after_their_time(sent: Sent) -> None:
    sent.stage(sent.account)
    sent.stage(sent.broken)
    with sent.supplier.Session.begin() as session:
        assert remove_error_texts(session, after_days=8) == 0
        session.execute(update(AccountImportProcess).values(refused_at=func.now() - timedelta(days=9)))
        assert remove_error_texts(session, after_days=8) == 1
    (item,) = sent.reconcile()["open"]
    assert (item["reason"], item["errors"]) == ("STAGED_OLDER_VERSION", None)


def test_an_account_that_was_erased_is_never_marked(sent: Sent) -> None:
    sent.run([sent.account])
    sent.stage(sent.broken)
    names = {"import_supplier": sent.supplier.code, "external_account_number": sent.number}
    sent.supplier.post("/account-import-process/erase/", names | {"reason": "Request 1"})
    assert sent.row().refused_errors is None
    sent.run([sent.corrected()])
    sent.stage(sent.broken)
    assert (sent.row().refused_errors, sent.reconcile()["open"]) == (None, [])
    assert _codes(json_of(sent.stage(sent.corrected()))["errors"]) == ["account_already_imported"]
    assert sent.reconcile()["open"] == []


def test_an_undo_leaves_the_mark_so_that_the_older_version_is_not_created_again(sent: Sent) -> None:
    sent.run([sent.account])
    sent.stage(sent.corrected())
    with sent.supplier.Session.begin() as session:
        states.revert(OpenTransaction.of(session), [sent.row().id])
    assert sent.run_pending()["older_versions"] == 1
    assert json_of(sent.stage(sent.corrected()))["result"] == "REPLACED"
    assert sent.run_pending("dry-run")["older_versions"] == 0


@pytest.mark.parametrize("reason", ["import_supplier_paused", "account_marked_to_skip"])
def test_a_newer_version_that_came_at_the_wrong_time_is_not_forgotten(sent: Sent, reason: str) -> None:
    sent.stage(sent.account)
    with sent.supplier.Session.begin() as session:
        if reason == "account_marked_to_skip":
            skip_accounts(session, sent.supplier.known().id, [sent.number])
        else:
            set_status(session, sent.supplier.code, SupplierStatus.PAUSED)
    assert json_of(sent.stage(sent.account))["code"] == reason
    assert sent.row().refused_at is None, "it is what is staged"
    assert json_of(sent.stage(sent.corrected()))["code"] == reason
    with sent.supplier.Session.begin() as session:
        set_status(session, sent.supplier.code, SupplierStatus.ONGOING)
        unskip_accounts(session, sent.supplier.known().id, [sent.number])
    assert [_codes(it["errors"]) for it in sent.reconcile()["open"]] == [[reason]]


def test_a_correction_refused_while_the_account_is_created_marks_it_in_every_order(sent: Sent) -> None:
    known = sent.supplier.known()
    rounds = count()

    def script() -> Script:
        number = f"created-{next(rounds)}"
        sent.stage(sent.account | {"external_account_number": number})
        attempt = sent.supplier.attempt_of(number)
        refused = RefusedVersion(number, [ErrorItem("invalid_phone_number", "Wrong.", "customers.0.mobile")])

        def begin(session: Session) -> bool:
            return states.start(OpenTransaction.of(session), attempt, durable=True)

        def note(session: Session) -> None:
            note_refused(OpenTransaction.of(session), known.id, [refused])

        run = yield {"request": [("begin", begin), COMMIT], "other": [("note", note), COMMIT]}
        assert run.results["request.begin"] is True
        assert sent.supplier.process_row(number).refused_at is not None

    assert explore(sent.supplier.Session, script) > 2


def test_a_retry_neither_replaces_what_was_staged_since_nor_marks_what_was_created_since(sent: Sent) -> None:
    failed = sent.fail(sent.account)
    assert sent.stage(sent.corrected()).status_code == 201
    before = sent.row()
    for _again in range(2):
        assert sent.retry(failed) == ("FAILED", ["newer_version_staged"])
    after = sent.row()
    assert (after.payload, after.state, after.refused_at) == (before.payload, "PENDING", None)
    sent.create()
    assert sent.retry(failed)[0] == "ALREADY_IMPORTED"
    assert "payload_differs" in _codes(sent.results(failed)[0]["warnings"])
    assert sent.row().refused_at is None


def test_a_line_that_fails_again_does_not_mark_what_was_staged_since_as_older(sent: Sent) -> None:
    batch_id = str(sent.run([sent.broken])["batch_id"])
    sent.stage(sent.account)
    assert sent.retry(batch_id) == ("FAILED", ["invalid_phone_number"])
    assert sent.row().refused_at is None


def test_a_retry_creates_nothing_of_which_a_newer_version_was_refused_since(sent: Sent) -> None:
    sent.stage(sent.account)
    sent.supplier.process(sent.number)
    batch_id = str(sent.run([sent.account])["batch_id"])
    assert sent.get(batch_id)["error_counts"] == {"account_import_in_progress": 1}
    with sent.supplier.Session.begin() as session:
        this = update(AccountImportProcess).where(sent.supplier.process_of(sent.number))
        session.execute(this.values(state="PENDING", attempt_id=None))
    assert sent.stage(sent.broken).status_code == 400
    marked = sent.row()
    assert sent.retry(batch_id) == ("FAILED", ["newer_version_refused"])
    kept = sent.row()
    assert (kept.refused_at, kept.refused_errors) == (marked.refused_at, marked.refused_errors)
    assert (kept.state, kept.refused_at is not None) == ("PENDING", True)


@pytest.mark.parametrize(
    ("own", "staged", "status"),
    [(SECOND, FIRST, "IMPORTED"), (FIRST, SECOND, "FAILED"), (FIRST, None, "FAILED")],
)
def test_extracts_decide_which_version_a_retry_takes(
    sent: Sent, own: str, staged: str | None, status: str
) -> None:
    failed = sent.fail(sent.account, extracted_at=own)
    sent.stage(sent.corrected(), **({"extracted_at": staged} if staged else {}))
    assert sent.retry(failed) == (status, ["newer_version_staged"] if status == "FAILED" else [])


def test_the_retry_of_another_line_makes_no_line_younger(sent: Sent) -> None:
    other = sent.supplier.accounts(51)[-1]
    failed = sent.fail(sent.account, other)
    sent.stage(sent.corrected())
    for place in (2, 1):
        with sent.supplier.Session.begin() as session:
            batch = session.get_one(Batch, UUID(failed))
            assert retry_failed(session, batch, ResultFilter(line=place), everything=True).retried == 1
        sent.work()
    assert sent.outcomes(failed) == [("FAILED", ["newer_version_staged"]), ("IMPORTED", [])]
