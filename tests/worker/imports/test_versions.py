"""The order of an account's versions: what staging did, and which extract wins."""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

from sqlalchemy import update
from sqlalchemy.orm import Session

from migration_payloads.profile import Profile
from migration_payloads.validation import validate_account
from migration_service.db.sql import OpenTransaction, SqlConnection, autocommit
from migration_service.models import AccountImportProcess
from migration_service.services.imports import storing
from migration_service.states import ImportState, StagingResult
from support.batch_client import BatchClient
from support.interleavings import COMMIT, Script, explore
from support.supplier_client import SupplierClient

EARLY, LATE = "2026-03-01T22:00:00Z", "2026-03-02T22:00:00+01:00"


def _address(supplier: SupplierClient, number: str) -> str:
    return str((supplier.process_row(number).payload or {})["billing_address1"])


def test_staging_says_whether_it_changed_anything(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    changed = account | {"billing_address1": "Elsewhere 1"}
    answers = [supplier.stage(it) for it in (account, account, changed)]
    assert [(it.status_code, it.json["result"]) for it in answers] == [  # type: ignore[index]
        (201, "STAGED"),
        (200, "UNCHANGED"),
        (200, "REPLACED"),
    ]
    full = supplier.stage(account, report="full")
    assert (full.json["valid"], full.json["result"]) == (True, "REPLACED")  # type: ignore[index]


def test_an_earlier_extract_never_replaces_a_later_one(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    new, old = account | {"billing_address1": "New 1"}, account | {"billing_address1": "Old 1"}
    assert supplier.stage(new, extracted_at=LATE).status_code == 201
    refused = supplier.stage(old, extracted_at=EARLY)
    assert (refused.status_code, refused.json["code"]) == (400, "newer_version_staged")  # type: ignore[index]
    assert "2026-03-02T21:00:00Z" in refused.json["detail"]  # type: ignore[index]
    assert EARLY in refused.json["detail"]  # type: ignore[index]
    assert _address(supplier, number) == "New 1"
    assert supplier.stage(old, extracted_at=LATE).json["result"] == "REPLACED"  # type: ignore[index]
    assert supplier.stage(new).json["result"] == "REPLACED"  # type: ignore[index]
    assert supplier.stage(old, extracted_at=EARLY).status_code == 200, "nobody said when New 1 was extracted"


def test_a_line_never_replaces_what_arrived_after_its_file(batches: BatchClient) -> None:
    """A batch was paused. What it still has is older than what was sent meanwhile, unless it is the same."""
    supplier = batches.supplier
    accounts = supplier.accounts(4)
    replaced, refused, same, left = [account["external_account_number"] for account in accounts]
    batch_id = batches.start(accounts)
    assert batches.change(batch_id, "pause").status_code == 200
    assert supplier.stage(accounts[0] | {"billing_address1": "Newer 1"}).status_code == 201
    assert supplier.stage(accounts[1]).status_code == 201
    assert supplier.stage(accounts[1] | {"customers": "nobody"}).status_code == 400
    assert supplier.stage(dict(reversed(accounts[2].items()))).status_code == 201
    assert batches.change(batch_id, "resume").status_code == 200
    batches.work()
    codes = {
        line["external_account_number"]: [it["code"] for it in line["errors"]]
        for line in batches.results(batch_id)
    }
    assert codes == {
        replaced: ["newer_version_staged"],
        refused: ["newer_version_refused"],
        same: [],
        left: [],
    }
    assert _address(supplier, replaced) == "Newer 1"
    assert supplier.process_row(refused).refused_at is not None


def test_the_same_payload_of_a_later_extract_counts_from_then_on(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    supplier.stage(account, extracted_at=EARLY)
    assert supplier.stage(account, extracted_at=LATE).json["result"] == "UNCHANGED"  # type: ignore[index]
    supplier.stage(account)  # says nothing about its extract, and changes nothing
    assert supplier.stage(account, extracted_at=EARLY).json["code"] == "newer_version_staged"  # type: ignore[index]


def test_an_extract_is_a_moment_that_has_passed(supplier: SupplierClient) -> None:
    (account,) = supplier.accounts()
    for moment, code in (("2026-03-01", "invalid_datetime"), ("2226-03-01T22:00:00Z", "out_of_range")):
        answer = supplier.stage(account, extracted_at=moment)
        assert [(it["code"], it["attr"]) for it in answer.json["errors"]] == [(code, "extracted_at")]  # type: ignore[index]


def test_a_batch_counts_what_staging_did_and_refuses_accounts_of_an_earlier_extract(
    batches: BatchClient,
) -> None:
    kept, changed, newer, new = batches.supplier.accounts(4)
    for account in (kept, changed):
        batches.supplier.stage(account, extracted_at=EARLY)
    batches.supplier.stage(newer, extracted_at="2026-03-09T00:00:00Z")
    lines = [kept, *({**it, "billing_address1": "Elsewhere 1"} for it in (changed, newer)), new]
    rehearsed = batches.run(lines, "dry-run", extracted_at=LATE)
    assert rehearsed["staging_counts"] == {}
    assert rehearsed["error_counts"] == {"newer_version_staged": 1}
    report = batches.run(lines, "stage", extracted_at=LATE)
    assert report["extracted_at"] == "2026-03-02T21:00:00Z"
    assert report["staging_counts"] == {"STAGED": 1, "REPLACED": 1, "UNCHANGED": 1}
    assert [(it["status"], it["staging_result"]) for it in batches.results(report["batch_id"])] == [
        ("STAGED", "UNCHANGED"),
        ("STAGED", "REPLACED"),
        ("FAILED", None),
        ("STAGED", "STAGED"),
    ]
    replaced = batches.results(report["batch_id"], "?staging_result=REPLACED")
    assert [it["line_number"] for it in replaced] == [2]


def test_only_a_file_of_accounts_has_an_extract(batches: BatchClient) -> None:
    for name, value in (("source", "pending"), ("kind", "notes")):
        answer = batches.post(b"", "import", **{"extracted_at": EARLY, name: value})  # type: ignore[arg-type]
        assert [(it["code"], it["attr"]) for it in answer.json["errors"]] == [("invalid", "extracted_at")]  # type: ignore[index]


def test_of_two_extracts_at_once_the_later_one_wins_in_every_order(supplier: SupplierClient) -> None:
    known = supplier.known()
    rounds = count()

    def script() -> Script:
        template = supplier.accounts()[0] | {"external_account_number": f"both-{next(rounds)}"}
        number = template["external_account_number"]

        def stage(session: Session, street: str, day: int) -> StagingResult | None:
            account = validate_account(template | {"billing_address1": street}, Profile.LENIENT)
            moment = datetime(2026, 3, day, tzinfo=UTC)
            (staged,) = storing.stage(OpenTransaction.of(session), known, [account], extracted_at=moment)
            return staged.result

        run = yield {
            "older": [("stage", lambda session: stage(session, "Old 1", 1)), COMMIT],
            "newer": [("stage", lambda session: stage(session, "New 1", 2)), COMMIT],
        }
        assert _address(supplier, number) == "New 1"
        assert run.results["newer.stage"] is not None

    assert explore(supplier.Session, script) > 2


class _Meanwhile(SqlConnection):
    """Runs something once, after the first statement."""

    def __init__(self, statements: SqlConnection, action: Any) -> None:
        self._statements = statements
        self._actions = [action]

    def execute(self, statement: str, values: Mapping[str, Any]) -> list[Any]:
        rows = self._statements.execute(statement, values)
        while self._actions:
            self._actions.pop()()
        return rows


def test_a_payload_that_arrives_as_an_attempt_fails_is_staged_and_not_only_said_to_be(
    supplier: SupplierClient,
) -> None:
    """The account is being created at the first statement, and pending again at the second one."""
    (account,) = supplier.accounts()
    number = account["external_account_number"]
    supplier.stage(account)

    def become(state: ImportState, attempt_id: str | None) -> None:
        with supplier.Session.begin() as session:
            session.execute(
                update(AccountImportProcess)
                .where(supplier.process_of(number))
                .values(state=state, attempt_id=attempt_id)
            )

    become(ImportState.IN_PROGRESS, "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11")
    changed = validate_account(account | {"billing_address1": "Elsewhere 1"}, Profile.LENIENT)
    known = supplier.known()
    with autocommit(supplier.Session) as statements:
        meanwhile = _Meanwhile(statements, lambda: become(ImportState.PENDING, None))
        (staged,) = storing.stage(meanwhile, known, [changed])
    assert staged.result is StagingResult.REPLACED
    assert _address(supplier, number) == "Elsewhere 1"
