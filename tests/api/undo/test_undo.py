"""Undo over HTTP: previews, starting, progress, outcomes, and who may do it."""

import csv
import io
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import PermissionDeniedError
from migration_service.models import Batch
from migration_service.services.access.api_keys import KeyLimits, issue_api_key
from migration_service.services.access.operators import OperatorRole
from migration_service.services.access.scopes import Scope
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.undo.starting import MOST_RUNNING, start_undo
from migration_service.states import BatchState, UndoBlocker
from migration_service.tasks.jobs import revert_accounts
from migration_service.tasks.names import REVERT_ACCOUNTS
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import obtain
from support.imported_account import ImportedAccount, refusal_of
from support.messages import noted_messages
from support.rows import set_live
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient

pytestmark = pytest.mark.usefixtures("neighbour")


def _attr(answer: Any) -> tuple[int, str, str]:
    (error,) = answer.json["errors"]
    return answer.status_code, error["code"], error["attr"]


def test_an_account_is_undone(supplier: SupplierClient, account: ImportedAccount, undos: UndoClient) -> None:
    number = (supplier.status(account.number).json or {})["service_account_number"]
    preview = undos.preview(account.number)
    assert (preview["accounts"], preview["revertible"], preview["blockers"]) == (1, 1, [])
    with noted_messages() as messages:
        answer = undos.post(account.number)
    assert answer.status_code == 202
    started = answer.json or {}
    assert messages == [(REVERT_ACCOUNTS, (started["undo_id"],))]
    assert (started["state"], started["reason"], started["overrides"]) == ("RUNNING", "A test.", [])
    assert started["counts"] == {"PENDING": 1, "REVERTED": 0, "KEPT": 0}
    assert answer.headers["Location"].endswith(f"/v1/data-import/undos/{started['undo_id']}/")
    undos.work(started["undo_id"])
    report = undos.get(started["undo_id"])
    assert (report["state"], report["counts"]["REVERTED"]) == ("COMPLETED", 1)
    assert undos.outcomes(started["undo_id"]) == [
        {
            "external_account_number": account.number,
            "service_account_number": number,
            "outcome": "REVERTED",
            "reasons": [],
        }
    ]
    assert (supplier.status(account.number).json or {})["status"] == "UNKNOWN"
    answer = account.post_notes({"body": "Too late."})
    assert refusal_of(answer) == (404, "account_not_found")


def test_a_preview_changes_nothing_and_counts_what_is_gone(batches: BatchClient, undos: UndoClient) -> None:
    report = batches.run(batches.supplier.accounts(3))
    lines = batches.results(report["batch_id"])
    ImportedAccount(batches.supplier, lines[0]["external_account_number"]).post_notes({"body": "Later."})
    undos.run(lines[1]["external_account_number"])
    found = undos.preview(batch=report["batch_id"])
    counted = [found[name] for name in ("accounts", "revertible", "revertible_with_overrides", "gone")]
    assert counted == [2, 1, 2, 1]
    example = lines[0]["external_account_number"]
    blocker = {"code": "data_added_later", "may_be_overridden": True, "accounts": 1, "examples": [example]}
    assert found["blockers"] == [blocker]
    assert undos.preview(batch=report["batch_id"]) == found
    assert undos.preview("nobody", "nobody")["gone"] == 1


def test_the_outcomes_are_filtered_and_written_as_csv(batches: BatchClient, undos: UndoClient) -> None:
    batch_id = batches.run(batches.supplier.accounts(2))["batch_id"]
    kept = batches.results(batch_id)[1]["external_account_number"]
    ImportedAccount(batches.supplier, kept).post_notes({"body": "Later."})
    undo_id = undos.run(batch=batch_id)["undo_id"]
    answer = batches.supplier.get(f"/undos/{undo_id}/results/?outcome=KEPT", headers={"Accept": "text/csv"})
    assert (answer.mimetype, answer.headers["Vary"]) == ("text/csv", "Accept")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["external_account_number"], row["reasons"]) == (kept, "data_added_later")
    answer = batches.supplier.get(f"/undos/{undo_id}/results/?outcome=kept")
    assert _attr(answer) == (400, "invalid_choice", "outcome")


def test_a_repeated_request_with_a_key_starts_one_undo(account: ImportedAccount, undos: UndoClient) -> None:
    key = {"Idempotency-Key": str(uuid4())}
    first = undos.post(account.number, headers=key)
    again = undos.post(account.number, headers=key)
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json == first.json
    undos.work((first.json or {})["undo_id"])
    assert undos.post(account.number, headers=key).json == first.json, "also when it is over"


def test_undos_are_listed_in_pages(account: ImportedAccount, undos: UndoClient) -> None:
    ids = []
    for _ in range(3):
        ids.append(undos.start(account.number))
        assert undos.supplier.post(f"/undos/{ids[-1]}/cancel/").status_code == 200
    for limit, pages in ((2, [ids[:0:-1], ids[:1]]), (3, [ids[::-1]])):
        found = undos.supplier.pages(f"/undos/?limit={limit}&import_supplier={undos.supplier.code}")
        assert [[it["undo_id"] for it in page] for page in found] == pages
    assert undos.supplier.get("/undos/?import_supplier=another").json == []


def test_a_body_names_a_batch_or_numbers(account: ImportedAccount, undos: UndoClient) -> None:
    assert _attr(undos.post()) == (400, "required", "external_account_numbers")
    both = undos.post(account.number, batch=str(uuid4()))
    assert _attr(both) == (400, "required", "external_account_numbers")
    unknown = undos.post(external_account_numbers=[], batch=str(uuid4()))
    assert (unknown.status_code, unknown.json["code"]) == (404, "batch_not_found")  # type: ignore[index]
    assert _attr(undos.post(account.number, by=" ")) == (400, "blank", "by")
    twice = undos.run(account.number, account.number)
    assert twice["accounts"] == 1


def test_every_number_without_an_account_is_named(account: ImportedAccount, undos: UndoClient) -> None:
    answer = undos.post("nobody", account.number, "nothing")
    found = [(it["code"], it["attr"]) for it in (answer.json or {})["errors"]]
    assert answer.status_code == 400
    assert found == [
        ("nothing_to_undo", "external_account_numbers.0"),
        ("nothing_to_undo", "external_account_numbers.2"),
    ]


def test_an_account_that_is_in_an_undo_is_not_undone_again_meanwhile(
    account: ImportedAccount, undos: UndoClient
) -> None:
    running = undos.start(account.number)
    again = undos.post(account.number)
    assert _attr(again) == (400, "account_in_undo", "external_account_numbers.0")
    assert undos.supplier.post(f"/undos/{running}/cancel/").status_code == 200
    assert undos.run(account.number)["accounts"] == 1


def test_an_organisation_has_a_few_undos_that_run_and_they_are_dispatched_one_after_the_other(
    supplier: SupplierClient,
    undos: UndoClient,
    worker_resources: WorkerResources,
    another: SupplierClient,
) -> None:
    UndoClient(another).start(ImportedAccount.create(another, worker_resources).number)
    accounts = [ImportedAccount.create(supplier, worker_resources) for _ in range(MOST_RUNNING + 1)]
    with noted_messages() as messages:
        *running, refused = (undos.post(account.number) for account in accounts)
    ids = [answer.json["undo_id"] for answer in running]  # type: ignore[index]
    assert (refused.status_code, (refused.json or {})["code"]) == (429, "share_used")
    assert refused.headers["Retry-After"]
    assert messages == [(REVERT_ACCOUNTS, (ids[0],))]
    with noted_messages() as messages:
        revert_accounts.run(ids[0])
    assert messages == [(REVERT_ACCOUNTS, (ids[1],))]
    assert undos.start(accounts[-1].number)


@pytest.mark.parametrize("number", ["\0", " padded ", "x" * 129, "\u202e", 7, {"a": 1}], ids=ascii)
def test_hostile_numbers_are_refused(undos: UndoClient, number: Any) -> None:
    answer = undos.post(external_account_numbers=[number])
    assert answer.status_code == 400
    assert (answer.json or {})["errors"][0]["attr"].startswith("external_account_numbers")


def test_a_key_with_the_scope_overrides_what_may_be(
    sessions: sessionmaker[Session], account: ImportedAccount, undos: UndoClient
) -> None:
    account.post_notes({"body": "Later."})
    wanted = {"overrides": ["data_added_later"], "by": "Ada"}
    assert undos.post(account.number, **wanted).status_code == 403, "a key without scopes has it not"
    with sessions.begin() as session:
        limits = KeyLimits(scopes=[Scope.UNDO, Scope.OVERRIDE])
        key = issue_api_key(session, organisation_name=undos.supplier.organisation, limits=limits)
    undos.supplier.token = str(obtain(undos.supplier.app.test_client(), APIKey=key)["token"])
    erased = undos.post(account.number, overrides=["account_erased"])
    assert _attr(erased) == (400, "invalid_choice", "overrides")
    done = undos.run(account.number, **wanted)
    assert (done["started_by"], done["overrides"], done["counts"]["REVERTED"]) == (
        "Ada",
        ["data_added_later"],
        1,
    )


def test_only_an_administrator_overrides(sessions: sessionmaker[Session], account: ImportedAccount) -> None:
    def start(*overrides: UndoBlocker, role: OperatorRole | None) -> None:
        with sessions() as session:
            order = UndoOrder(
                supplier=account.supplier.known(),
                external_account_numbers=[account.number],
                reason="A test.",
                overrides=frozenset(overrides),
            )
            start_undo(session, order, role=role)

    for role in (None, OperatorRole.READ, OperatorRole.OPERATE):
        start(role=role)
        with pytest.raises(PermissionDeniedError):
            start(UndoBlocker.EMAIL_SENT, role=role)
    start(UndoBlocker.EMAIL_SENT, UndoBlocker.DATA_ADDED, role=OperatorRole.ADMINISTER)


def test_nothing_is_undone_after_go_live(account: ImportedAccount, undos: UndoClient) -> None:
    with account.supplier.Session.begin() as session:
        set_live(session, account.supplier.code)
    assert refusal_of(undos.post(account.number)) == (400, "import_supplier_live")
    assert undos.preview(account.number)["blockers"][0]["code"] == "import_supplier_live"


@pytest.mark.parametrize("state", BatchState)
def test_a_batch_that_creates_accounts_is_not_undone(
    batches: BatchClient, undos: UndoClient, state: BatchState
) -> None:
    batch_id = batches.run(batches.supplier.accounts(1))["batch_id"]
    with batches.supplier.Session.begin() as session:
        session.get_one(Batch, batch_id).state = state
    answer = undos.post(batch=batch_id)
    runs = state in (BatchState.RUNNING, BatchState.WAITING)
    assert answer.status_code == (400 if runs else 202)
    if runs:
        assert refusal_of(answer) == (400, "batch_state_conflict")


@pytest.mark.parametrize(("state", "action"), [("PAUSED", "resume"), ("COMPLETED", "retry-failed")])
def test_a_batch_neither_goes_on_nor_is_undone_again_while_it_is_undone(
    batches: BatchClient, undos: UndoClient, state: BatchState, action: str
) -> None:
    batch_id = batches.run(batches.supplier.accounts(1))["batch_id"]
    with batches.supplier.Session.begin() as session:
        session.get_one(Batch, batch_id).state = state
    undo_id = undos.start(batch=batch_id)
    for refused in (batches.change(batch_id, action), undos.post(batch=batch_id)):
        assert refusal_of(refused) == (400, "batch_state_conflict")
        assert undo_id in refused.text
    undos.work(undo_id)
    assert batches.change(batch_id, action).status_code == 200


def test_accounts_that_a_batch_only_found_are_not_its_own(batches: BatchClient, undos: UndoClient) -> None:
    accounts = batches.supplier.accounts(1)
    batches.run(accounts)
    second = batches.run(accounts)["batch_id"]
    assert refusal_of(undos.post(batch=second)) == (400, "nothing_to_undo")


def test_an_undo_that_is_over_cannot_be_cancelled(account: ImportedAccount, undos: UndoClient) -> None:
    undo_id = undos.run(account.number)["undo_id"]
    assert refusal_of(undos.supplier.post(f"/undos/{undo_id}/cancel/")) == (400, "undo_state_conflict")
