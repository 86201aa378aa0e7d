"""Go-live over HTTP: of a batch, of named accounts and of a supplier, and who owns an account then."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask
from sqlalchemy import select, update

from migration_service.blueprints.requests.resources import resources
from migration_service.models import Account, Comparison, Event, GoLive
from migration_service.tasks.jobs import sweep_jobs
from migration_service.tasks.names import MARK_LIVE
from support.audit import list_entries
from support.batch_client import BatchClient
from support.factories import json_of
from support.go_lives import GoLiveClient
from support.imported_account import ImportedAccount, codes_of, refusal_of
from support.messages import noted_messages
from support.supplier_client import SupplierClient
from support.undo_client import UndoClient

pytestmark = pytest.mark.usefixtures("neighbour")

_LATER = f"{datetime.now(UTC) + timedelta(days=9):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def go_lives(batches: BatchClient) -> GoLiveClient:
    return GoLiveClient(batches.supplier)


def _book(batches: BatchClient, accounts: int) -> tuple[str, list[str]]:
    """The id of a batch, and the numbers of its accounts in order."""
    payloads = [it | {"external_account_number": f"{uuid4()}"} for it in batches.supplier.accounts(accounts)]
    return batches.run(payloads)["batch_id"], sorted(it["external_account_number"] for it in payloads)


def _events(go_lives: GoLiveClient) -> list[dict[str, Any]]:
    with go_lives.supplier.Session() as session:
        told = select(Event.data).where(Event.type == "account.went_live").order_by(Event.id)
        return [dict(data) for data in session.scalars(told)]


def _sweep(app: Flask) -> list[Any]:
    """The messages that the sweep publishes."""
    with app.app_context():
        resources().celery.set_current()
    with noted_messages() as messages:
        sweep_jobs()
    return list(messages)


def test_a_batch_goes_live_and_is_closed_against_undo_while_others_are_not(
    batches: BatchClient, go_lives: GoLiveClient, undos: UndoClient
) -> None:
    early, closed = _book(batches, 3)
    late, rehearsed = _book(batches, 2)
    found = go_lives.preview(batch=early)
    assert (found["accounts"], found["already_live"], found["before"]) == (3, 0, None)
    assert go_lives.owned("old") == sorted(closed + rehearsed)
    with noted_messages() as messages:
        go_live_id = go_lives.start(batch=early, by="Ada")
    assert messages == [(MARK_LIVE, (go_live_id,))]
    started = go_lives.get(go_live_id)
    assert (started["state"], started["accounts"], started["decided_by"]) == ("PENDING", 0, "Ada")
    go_lives.work(go_live_id)
    ended = go_lives.get(go_live_id)
    assert (ended["state"], ended["accounts"], ended["batch_id"]) == ("COMPLETED", 3, early)
    assert sorted(it["external_account_number"] for it in _events(go_lives)) == closed
    assert {it["go_live_id"] for it in _events(go_lives)} == {go_live_id}
    assert (go_lives.owned("new"), go_lives.owned("old")) == (closed, rehearsed)
    assert go_lives.owned("new", "&limit=1") == closed[:1]
    created = (go_lives.supplier.get(f"/accounts/{go_lives.supplier.code}/{closed[0]}/").json or {})[
        "created"
    ]
    assert (created["owner"], created["live_by"], bool(created["live_at"])) == ("new", "Ada", True)
    undone = undos.run(batch=early)
    assert undone["kept_counts"] == {"account_live": 3}
    assert undos.run(batch=late)["counts"]["REVERTED"] == 2
    again = go_lives.post(batch=early)
    assert refusal_of(again) == (400, "nothing_goes_live")
    with go_lives.supplier.Session() as session:
        (entry,) = list_entries(session, action="go_live.set")
    details = entry.details or {}
    assert (details["batch_id"], details["by"]) == (early, "Ada")


def test_named_accounts_go_live_and_then_the_rest_with_their_supplier(
    batches: BatchClient, go_lives: GoLiveClient, another: SupplierClient
) -> None:
    _, numbers = _book(batches, 3)
    report = go_lives.run(external_account_numbers=[numbers[1], numbers[1]])
    assert (report["accounts"], report["batch_id"]) == (1, None)
    assert go_lives.owned("new") == [numbers[1]]
    not_ours = ImportedAccount.create(another, batches.resources).number
    unknown = go_lives.post(external_account_numbers=[numbers[0], not_ours])
    assert refusal_of(unknown) == (400, "request_failed_validation")
    assert (unknown.json or {})["errors"][0]["attr"] == "external_account_numbers.1"
    found = go_lives.preview()
    assert (found["accounts"], found["already_live"]) == (2, 1)
    go_live_id = go_lives.start()
    assert go_lives.owned("new") == numbers, "its moment does not wait for a worker"
    with go_lives.supplier.Session.begin() as session:
        moment = session.get_one(GoLive, UUID(go_live_id)).live_at
        last = update(Account).where(Account.external_account_number == numbers[0])
        session.execute(last.values(created_at=moment))
    _book(batches, 1)  # it is of the platform from the beginning
    go_lives.work(go_live_id)
    assert go_lives.get(go_live_id)["accounts"] == 2
    told = {it["external_account_number"]: it["go_live_id"] for it in _events(go_lives)}
    assert told == dict.fromkeys(numbers, go_live_id) | {numbers[1]: report["go_live_id"]}
    assert refusal_of(go_lives.post(external_account_numbers=numbers)) == (400, "import_supplier_live")
    listed = go_lives.supplier.get(f"/go-lives/?limit=1&import_supplier={go_lives.supplier.code}")
    assert [it["go_live_id"] for it in listed.json or ()] == [go_live_id]
    assert "next" in listed.headers["Link"]


@pytest.mark.parametrize("by_batch", [True, False], ids=["batch", "supplier"])
def test_a_moment_is_moved_and_cancelled_until_it_comes(
    batches: BatchClient, go_lives: GoLiveClient, app: Flask, by_batch: bool
) -> None:
    batch_id, numbers = _book(batches, 2)
    target = {"batch": batch_id} if by_batch else {}
    go_live_id = go_lives.start(**target, at=_LATER)
    sooner = "2030-01-01T06:00:00Z" if _LATER < "2029" else "2060-01-01T06:00:00Z"
    assert _sweep(app) == []
    assert go_lives.preview(**target)["before"] == _LATER
    assert go_lives.start(**target, at=sooner) == go_live_id
    assert go_lives.owned("new") == []
    cancelled = go_lives.supplier.post(f"/go-lives/{go_live_id}/cancel/", None)
    assert (cancelled.json or {})["state"] == "CANCELLED"
    again = go_lives.supplier.post(f"/go-lives/{go_live_id}/cancel/", None)
    assert refusal_of(again) == (400, "go_live_state_conflict")
    second = go_lives.start(**target, at=_LATER)
    with go_lives.supplier.Session.begin() as session:
        session.execute(
            update(GoLive).where(GoLive.id == UUID(second)).values(live_at=datetime(2026, 1, 1, tzinfo=UTC))
        )
    assert _sweep(app) == [(MARK_LIVE, (second,))]
    go_lives.work(second)
    assert go_lives.owned("new") == numbers
    ended = go_lives.supplier.post(f"/go-lives/{second}/cancel/", None)
    assert refusal_of(ended) == (400, "go_live_state_conflict")


def test_what_cannot_go_live_is_refused_with_its_reason(batches: BatchClient, go_lives: GoLiveClient) -> None:
    open_batch = batches.start(batches.supplier.accounts())
    refused = {
        "batch_not_found": go_lives.post(batch=str(uuid4())),
        "batch_state_conflict": go_lives.post(batch=open_batch),
        "wave_plan_not_found": go_lives.post(wave={"plan_id": str(uuid4()), "number": 1}),
        "go_live_in_past": go_lives.post(at="2020-01-01T00:00:00Z"),
        "go_live_too_far": go_lives.post(at="2207-01-01T00:00:00Z"),
        "nothing_goes_live": go_lives.post(external_account_numbers=["nobody"]),
        "invalid": go_lives.post(external_account_numbers=[]),
        "blank": go_lives.post(batch=""),
        "invalid_datetime": go_lives.post(at="tomorrow"),
        "go_live_not_found": go_lives.supplier.get(f"/go-lives/{uuid4()}/"),
    }
    for it in ("2020-01-01T00:00:00Z", "2207-01-01T00:00:00Z"):
        previewed, started = go_lives.post("/go-lives/preview/", at=it), go_lives.post(at=it)
        assert previewed.json == started.json, "a preview refuses what the start does"
        assert [attr for attr, _ in codes_of(started)] == ["at"]
    for code, answer in refused.items():
        assert answer.status_code in (400, 404), answer.text
        body = answer.json or {}
        assert code in {body["code"], *(it["code"] for it in body.get("errors", ()))}, answer.text


@pytest.fixture
def gate(app: Flask, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let go-live ask for a receipt, and for another person than the one who accepted an exception."""
    with app.app_context():
        shared = resources()
    settings = replace(shared.settings, go_live_receipt_hours=24, go_live_four_eyes=True)
    monkeypatch.setitem(app.extensions, "migration_service", replace(shared, settings=settings))


def _is_ready(go_lives: GoLiveClient) -> bool:
    """Whether nothing is open, as the checks and the preview of the go-live say."""
    found = json_of(
        go_lives.supplier.get(f"/import-suppliers/{go_lives.supplier.code}/ready/?ready_for=go_live")
    )
    (said,) = [it["result"] for it in found["checks"] if it["check"] == "nothing_open"]
    assert (said == "PASSED") == (go_lives.preview()["not_ready"] == []), said
    return bool(said == "PASSED")


def _receipt(go_lives: GoLiveClient, query: str = "") -> dict[str, Any]:
    answer = go_lives.supplier.get(f"/reconciliation/{go_lives.supplier.code}/receipt/{query}")
    return dict(json_of(answer))


@pytest.mark.usefixtures("gate")
def test_a_go_live_asks_for_a_recent_comparison_with_nothing_open(
    batches: BatchClient, go_lives: GoLiveClient
) -> None:
    batch_id, numbers = _book(batches, 2)
    lacks = "There is no comparison of the last 24 hours: reconcile first."
    assert go_lives.preview(batch=batch_id)["not_ready"][0] == lacks
    for target in ({"batch": batch_id}, {"external_account_numbers": numbers[:1]}, {}):
        assert refusal_of(go_lives.post(**target)) == (400, "go_live_not_ready")
    go_lives.supplier.reconcile(f"?batch={batch_id}")
    receipt = _receipt(go_lives, f"?batch={batch_id}")
    assert (receipt["clean"], receipt["open"], receipt["compared"]) == (True, [], 2)
    assert [(it["batch_id"], len(it["sha256"])) for it in receipt["files"]] == [(batch_id, 64)]
    assert {"measure": "accounts", "staged": "2", "created": "2"} in receipt["totals"]
    assert go_lives.run(external_account_numbers=numbers[:1])["receipt"] is None
    with go_lives.supplier.Session.begin() as session:
        session.execute(update(Comparison).values(finished_at=datetime.now(UTC) - timedelta(hours=25)))
    assert go_lives.preview(batch=batch_id)["not_ready"] == [lacks]
    assert refusal_of(go_lives.post(external_account_numbers=numbers)) == (400, "go_live_not_ready")
    go_lives.supplier.reconcile(f"?batch={batch_id}")
    relied_on = go_lives.run(batch=batch_id)["receipt"]
    assert relied_on["comparison_id"] == _receipt(go_lives, f"?batch={batch_id}")["comparison_id"]


@pytest.mark.usefixtures("gate")
def test_what_is_open_is_accepted_with_a_reason_by_another_person(
    batches: BatchClient, go_lives: GoLiveClient
) -> None:
    _, numbers = _book(batches, 2)
    code = go_lives.supplier.code
    path = f"/reconciliation/{code}/receipt/exceptions/"

    def accept(**fields: Any) -> Any:
        return go_lives.supplier.post(path, {"reason": "Known.", "by": "Ada"} | fields)

    assert refusal_of(accept(problem="DIFFERING")) == (400, "no_receipt")
    with go_lives.supplier.Session.begin() as session:
        session.execute(update(Account).values(billing_postcode="9999 ZZ"))
    assert not _is_ready(go_lives), "nothing was compared"
    go_lives.supplier.reconcile()
    assert [it["problem"] for it in _receipt(go_lives)["open"]] == ["DIFFERING"]
    assert not _is_ready(go_lives)
    assert refusal_of(accept(problem="OPEN")) == (400, "request_failed_validation")
    unknown = accept(problem="DIFFERING", external_account_number="nobody")
    assert refusal_of(unknown) == (400, "request_failed_validation")
    one = accept(problem="DIFFERING", external_account_number=numbers[0])
    assert one.status_code == 201, one.text
    for accepted in (one, accept(problem="DIFFERING", external_account_number=numbers[0], reason="Again.")):
        assert accepted.json["open"] == [{"problem": "DIFFERING", "number": 2}], "one of two is not all"
    assert refusal_of(go_lives.post()) == (400, "go_live_not_ready")
    alone = go_lives.post(external_account_numbers=numbers[:1], by="Grace")
    assert refusal_of(alone) == (400, "go_live_needs_another_person"), "the same key"
    go_lives.supplier.renew_key()
    assert go_lives.run(external_account_numbers=numbers[:1])["accounts"] == 1
    assert refusal_of(go_lives.post(external_account_numbers=numbers)) == (400, "go_live_not_ready")
    accepted = accept(problem="DIFFERING").json
    assert (accepted["clean"], accepted["open"], len(accepted["exceptions"])) == (False, [], 3)
    assert accept(problem="DIFFERING").json == accepted, "saying it again changes nothing"
    assert _is_ready(go_lives)
    assert refusal_of(go_lives.post(by="Grace")) == (400, "go_live_needs_another_person"), "the same key"
    go_lives.supplier.renew_key()
    for name in ("Ada", " ada"):
        assert refusal_of(go_lives.post(by=name)) == (400, "go_live_needs_another_person"), "the same name"
    with go_lives.supplier.Session.begin() as session:
        session.execute(update(Comparison).values(finished_at=datetime.now(UTC) - timedelta(hours=25)))
    assert not _is_ready(go_lives)
    with go_lives.supplier.Session.begin() as session:
        session.execute(update(Comparison).values(finished_at=datetime.now(UTC)))
    relied_on = go_lives.run(by="Grace")["receipt"]
    accepted_by = [(it["number"], it["accepted_by"]) for it in relied_on["exceptions"]]
    assert accepted_by == [(1, "Ada"), (1, "Ada"), (2, "Ada")]
    with go_lives.supplier.Session() as session:
        assert len(list_entries(session, action="receipt.exception_accepted")) == 3
    go_lives.supplier.reconcile()
    assert _receipt(go_lives)["exceptions"] == [], "they hold until the next comparison"
