"""Wave plans over HTTP, and whether a supplier is ready: what checks say, and what a person may accept."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import (
    Account,
    AccountImportProcess,
    Backup,
    BatchChunk,
    ImportSupplier,
    OperationsTeam,
)
from migration_service.payment_vendors.answers import note_failure
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.batches.intake.quotas import BatchQuotas
from migration_service.services.setup.backups import record_backup
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.setup.vendors import create_payment_vendor
from migration_service.services.waves.orders import PlanOrder, WaveOrder
from migration_service.services.waves.plans import plan_waves
from migration_service.states import SupplierStatus
from support.audit import audited
from support.imported_account import at_once
from support.wave_client import EVENING, NIGHT, WaveClient

REST = {"rest": True}


def _errors(answer: Any) -> list[tuple[str, str | None]]:
    assert answer.status_code == 400, answer.text
    return [(item["code"], item["attr"]) for item in answer.json["errors"]]


@pytest.mark.parametrize(
    ("given", "more", "errors"),
    [
        ([], {}, [("empty", "waves")]),
        ([{}], {}, [("required", "waves.0")]),
        ([{"size": 1}, {"sample": 1}], {}, [("invalid", "waves.1.sample")]),
        ([REST, {"size": 1}], {}, [("invalid", "waves.0.rest")]),
        ([REST] * 50, {}, [("invalid", f"waves.{number}.rest") for number in range(49)]),
        ([REST] * 51, {}, [("too_many_items", "waves")]),
        ([REST | {"windw": NIGHT}], {}, [("unknown_field", "waves.0.windw")]),
        ([REST], {"window": NIGHT | {"start": "24:00"}}, [("invalid_datetime", "window.start")]),
        ([REST], {"window": NIGHT | {"time_zone": "Mars/Olympus"}}, [("invalid_choice", "window.time_zone")]),
        ([REST], {"window": NIGHT | {"time_zone": "../UTC"}}, [("invalid_choice", "window.time_zone")]),
        (
            [REST | {"window": {"start": "22:00"}}],
            {},
            [("required", "waves.0.window.end"), ("required", "waves.0.window.time_zone")],
        ),
        ([{"accounts": ["nobody"]}], {}, [("invalid", "waves.0.accounts.0")]),
        ([{"size": 9}, REST], {}, [("empty", "waves.1")]),
        ([REST], {"waves_": 1}, [("unknown_field", "waves_")]),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_kept(
    waves: WaveClient, given: list[Any], more: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    waves.stage(2)
    assert _errors(waves.post_plan(*given, **more)) == errors
    assert waves.supplier.get("/wave-plans/").json == []
    assert waves.supplier.get("/batches/").json == []


def test_a_supplier_has_one_plan_at_a_time(waves: WaveClient) -> None:
    waves.stage(2)
    plan = waves.plan({"size": 1})
    assert waves.post_plan(REST).json["code"] == "wave_plan_not_finished"
    assert waves.act(plan, 1, "stop", reason="another one").status_code == 200
    assert waves.plan(REST)["waves"][0]["lines"] == 2
    for query, count in ((f"?import_supplier={waves.supplier.code}", 2), ("?import_supplier=ANOTHER", 0)):
        assert len(waves.supplier.get(f"/wave-plans/{query}").json) == count  # type: ignore[arg-type]


def test_plans_with_one_key_at_once_are_one_plan(waves: WaveClient) -> None:
    waves.stage(1)
    headers = {"Idempotency-Key": str(uuid4())}
    body = {"import_supplier": waves.supplier.code, "operations_team_name": waves.supplier.team}
    answers = at_once(
        lambda: waves.supplier.post("/wave-plans/", body | {"waves": [REST]}, headers=headers), times=6
    )
    assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
    assert len({answer.data for answer in answers}) == 1
    (location,) = {answer.headers["Location"] for answer in answers}
    assert location.endswith(f"/v1/data-import/wave-plans/{(answers[0].json or {})['plan_id']}/")


def test_a_plan_has_to_come_again_while_another_one_is_being_made(waves: WaveClient) -> None:
    waves.stage(1)
    order = PlanOrder(operations_team_name=waves.supplier.team, waves=(WaveOrder(),), continue_if_clean=False)
    with waves.supplier.Session() as session:
        plan_waves(session, waves.supplier.known(), order)
        answer = waves.post_plan(REST)
        assert (answer.status_code, answer.json["code"]) == (429, "too_many_uploads")
        assert int(answer.headers["Retry-After"]) > 0
    assert waves.post_plan(REST).status_code == 201


def test_a_supplier_that_is_complete_has_nothing_to_plan(waves: WaveClient) -> None:
    waves.stage(1)
    waves.supplier.set_status(SupplierStatus.COMPLETE)
    assert waves.post_plan(REST).json["code"] == "import_supplier_complete"


def test_the_waves_of_a_plan_are_within_the_quota_of_open_batches(waves: WaveClient) -> None:
    waves.stage(3)
    with patch("migration_service.blueprints.waves.BatchQuotas", lambda *_: BatchQuotas(2, 10**9)):
        answer = waves.post_plan({"size": 1}, {"size": 1}, REST)
        assert (answer.status_code, answer.json["code"]) == (429, "too_many_open_batches")
        assert waves.supplier.get("/wave-plans/").json == []
        assert waves.post_plan({"size": 1}, REST).status_code == 201


def _change(waves: WaveClient, plan: dict[str, Any], number: int, **body: Any) -> Any:
    return waves.supplier.patch(f"/wave-plans/{plan['plan_id']}/waves/{number}/", body)


def test_a_wave_is_changed_until_it_starts_and_the_audit_tells_what(
    waves: WaveClient, sessions: sessionmaker[Session]
) -> None:
    waves.stage(21)
    plan = waves.plan({"size": 1}, REST, window=NIGHT, lines_per_minute=600, continue_if_clean=True)
    team = f"Second {waves.supplier.team}"
    with sessions.begin() as session:
        create_operations_team(session, team)
    changes: dict[str, Any] = {
        "window": NIGHT | {"start": "01:00", "end": "05:00", "days": ["sat", "sun"]},
        "lines_per_minute": 60,
        "brake": {"stop_after_errors": "5%", "stop_count_warnings": ["ledger_missing"]},
        "continue_if_clean": False,
        "operations_team_name": team,
    }
    changed = _change(waves, plan, 2, **changes)
    assert changed.status_code == 200, changed.text
    first, second = changed.json["waves"]
    assert first == plan["waves"][0]
    assert second["brake"]["stop_min_lines"] == 10, "a percentage fits the wave"
    told = changes | {"brake": second["brake"]}
    assert {name: second[name] for name in told} == told
    (entry,) = audited(sessions, action="wave.changed")
    assert {name: it["to"] for name, it in (entry.details or {}).items()} == told
    with sessions() as session:
        chunks = select(BatchChunk).where(BatchChunk.batch_id == waves.batch_id(plan, 2))
        ends = [it.last_line for it in session.scalars(chunks.order_by(BatchChunk.first_line))]
    assert ends == [10, 20], "each has the lines of ten seconds"
    assert second["counts"]["PENDING"] == 20

    assert _change(waves, plan, 2).json == changed.json, "nothing was asked"
    nothing = {"window": None, "lines_per_minute": None, "brake": None, "continue_if_clean": None}
    second = _change(waves, plan, 2, **nothing).json["waves"][1]
    assert (second["window"], second["lines_per_minute"]) == (None, None)
    assert second["brake"]["stop_after_errors"] == "50%"
    assert second["continue_if_clean"], "as in the plan"
    waves.now = EVENING
    waves.run()
    assert waves.states(plan) == ["CLEAN", "CLEAN"]
    with sessions() as session:
        of_team = select(func.count()).select_from(Account).join(OperationsTeam)
        assert session.scalar(of_team.where(OperationsTeam.name == team)) == 20
    for number in (1, 2):
        assert _change(waves, plan, number, window=None).json["code"] == "wave_state_conflict"


@pytest.mark.parametrize(
    ("body", "code", "attr"),
    [
        ({"window": NIGHT | {"end": "22:00"}}, "invalid", "window.end"),
        ({"window": NIGHT | {"time_zone": "Mars/Olympus"}}, "invalid_choice", "window.time_zone"),
        ({"lines_per_minute": 0}, "out_of_range", "lines_per_minute"),
        ({"brake": {"stop_after_errors": "5%", "stop_min_lines": 0}}, "out_of_range", "brake.stop_min_lines"),
        ({"operations_team_name": None}, "null", "operations_team_name"),
        ({"operations_team_name": "Nobody"}, "operations_team_not_found", "operations_team_name"),
        ({"size": 3}, "unknown_field", "size"),
    ],
)
def test_a_change_that_does_not_fit_is_named_and_changes_nothing(
    waves: WaveClient, body: dict[str, Any], code: str, attr: str | None
) -> None:
    waves.stage(1)
    plan = waves.plan(REST)
    answer = _change(waves, plan, 1, **{"continue_if_clean": True, **body})
    assert answer.status_code == 400, answer.text
    assert [(it["code"], it["attr"]) for it in answer.json["errors"]] == [(code, attr)]
    assert waves.get(plan) == plan


def test_a_wave_that_does_not_exist_is_404_and_a_decision_needs_a_reason(waves: WaveClient) -> None:
    waves.stage(1)
    plan = waves.plan(REST)
    for number in (0, 2, 10**20):
        answer = waves.act(plan, number, "start")
        assert (answer.status_code, answer.json["code"]) == (404, "wave_not_found")
    assert _errors(waves.act(plan, 1, "stop", reason="")) == [("blank", "reason")]


_OF_WAVES = ("window_long_enough", "rehearsal_current", "disk_has_room")


def _ask(waves: WaveClient, query: str = "") -> dict[str, Any]:
    answer = waves.supplier.get(f"/import-suppliers/{waves.supplier.code}/ready/{query}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json  # type: ignore[assignment]
    return found


def _results(waves: WaveClient, query: str = "") -> dict[str, str]:
    return {it["check"]: it["result"] for it in _ask(waves, query)["checks"]}


def _accept(waves: WaveClient, check: str, **body: str) -> Any:
    path = f"/import-suppliers/{waves.supplier.code}/ready/acceptances/"
    return waves.supplier.post(path, {"check": check, "reason": "Known", **body})


def _rehearse(waves: WaveClient) -> None:
    assert waves.batches.post(None, "dry-run", source="pending").status_code == 202
    waves.batches.work()


@pytest.fixture
def ready(waves: WaveClient, sessions: sessionmaker[Session]) -> WaveClient:
    """A supplier with a plan whose wave is ready: it was rehearsed, and there is a backup."""
    waves.stage(2)
    _rehearse(waves)
    waves.plan(REST)
    with sessions.begin() as session:
        record_backup(session)
    return waves


def test_a_supplier_is_ready_once_every_check_has_passed_or_was_accepted(
    ready: WaveClient, sessions: sessionmaker[Session]
) -> None:
    found = _ask(ready)
    assert (found["ready_for"], found["wave_number"]) == ("next_wave", 1)
    disk = next(it for it in found["checks"] if it["check"] == "disk_has_room")["result"]
    assert {it["check"]: it["result"] for it in found["checks"]} == dict.fromkeys(
        [it["check"] for it in found["checks"]], "PASSED"
    ) | {"disk_has_room": disk}
    assert found["ready"] is (disk == "PASSED")
    at_go_live = _results(ready, "?ready_for=go_live")
    assert not set(_OF_WAVES) & set(at_go_live)
    assert at_go_live["nothing_open"] == "WARNING", "two accounts are pending, and go-live asks for nothing"

    with sessions.begin() as session:
        session.execute(update(Backup).values(taken_at=ready.now - timedelta(days=1, minutes=1)))
    old = next(it for it in _ask(ready)["checks"] if it["check"] == "backup_recent")
    assert (old["result"], "backups taken" in old["remedy"]) == ("WARNING", True)
    assert not _ask(ready)["ready"]
    accepted = _accept(ready, "backup_recent", by="Grace")
    assert accepted.status_code == 201, accepted.text
    told = {"accepted_by": "Grace", "accepted_because": "Known"}
    assert {name: accepted.json[name] for name in told} == told
    assert accepted.json in _ask(ready)["checks"]
    (entry,) = audited(sessions, action="import_supplier.warning_accepted", subject=ready.supplier.code)
    assert entry.details == {
        **{"check": "backup_recent", "found": old["detail"], "because": "Known", "by": "Grace"}
    }
    # A warning that says something else was not accepted.
    with sessions.begin() as session:
        session.execute(update(Backup).values(taken_at=ready.now - timedelta(days=3)))
    again = next(it for it in _ask(ready)["checks"] if it["check"] == "backup_recent")
    assert (again["result"], again["accepted_by"]) == ("WARNING", None)


def _fail_vendor(waves: WaveClient, session: Session) -> None:
    name = f"cards-{waves.supplier.code}"
    owner, url = waves.supplier.organisation, "https://cards.example.com"
    create_payment_vendor(session, name, kind=VendorKind.HTTP, url=url, organisation_name=owner)
    with waves.batches.resources.redis.pipeline() as pipeline:
        note_failure(pipeline, name, "refused", is_open=True)
        pipeline.execute()


def _send_mail(waves: WaveClient, session: Session) -> None:
    of_supplier = update(ImportSupplier).where(ImportSupplier.code == waves.supplier.code)
    session.execute(of_supplier.values(sends_customer_emails=True, emails_at="at_creation"))


def _send_a_book(waves: WaveClient, _session: Session) -> None:
    waves.batches.run(waves.supplier.accounts(1), "stage")


def _contradict(waves: WaveClient, _session: Session) -> None:
    batch = waves.batches.run(waves.supplier.accounts(1), "stage")["batch_id"]
    assert waves.supplier.put(f"/batches/{batch}/control-totals/", {"accounts": 2}).status_code == 200


def _refuse_newer(waves: WaveClient, session: Session) -> None:
    session.execute(update(AccountImportProcess).values(refused_at=func.now()))


@pytest.mark.parametrize(
    ("change", "check", "result"),
    [
        (_fail_vendor, "vendors_answer", "WARNING"),
        (_send_mail, "mail_held", "WARNING"),
        (_send_a_book, "rehearsal_current", "WARNING"),
        (_contradict, "control_totals_equal", "FAILED"),
        (_refuse_newer, "nothing_open", "WARNING"),
    ],
)
def test_each_check_notices_what_it_is_for(
    ready: WaveClient,
    sessions: sessionmaker[Session],
    change: Callable[[WaveClient, Session], None],
    check: str,
    result: str,
) -> None:
    assert _results(ready)[check] == "PASSED"
    with sessions.begin() as session:
        change(ready, session)
    found = next(it for it in _ask(ready)["checks"] if it["check"] == check)
    assert (found["result"], bool(found["remedy"])) == (result, True), found
    answer = _accept(ready, check)
    expected = (201, None) if result == "WARNING" else (400, "readiness_not_acceptable")
    assert (answer.status_code, answer.json.get("code")) == expected
    assert _accept(ready, check).json["code"] == "readiness_not_acceptable", "already, or not at all"


def test_the_checks_follow_a_plan_from_its_file_to_its_end(
    waves: WaveClient, sessions: sessionmaker[Session]
) -> None:
    waves.stage(3)
    assert _ask(waves)["ready_for"] == "go_live", "no wave is planned"
    before = _results(waves, "?ready_for=next_wave")
    assert (before["rehearsal_current"], before["window_long_enough"]) == ("WARNING", "WARNING")
    assert before["backup_recent"] == "WARNING"
    plan = waves.plan({"size": 1}, REST, window=NIGHT)
    assert _results(waves)["window_long_enough"] == "WARNING", "nothing was measured"
    _rehearse(waves)
    with sessions.begin() as session:
        create_operations_team(session, f"Second {waves.supplier.team}")
    body = {"operations_team_name": f"Second {waves.supplier.team}", "window": None}
    waves.supplier.patch(f"/wave-plans/{plan['plan_id']}/waves/1/", body)
    found = _results(waves)
    assert (found["team_exists"], found["window_long_enough"]) == ("WARNING", "PASSED")
    assert waves.act(plan, 1, "start").status_code == 200
    waves.run()
    found = _results(waves)
    assert (_ask(waves)["wave_number"], found["nothing_open"], found["four_eyes"]) == (2, "FAILED", "PASSED")
    assert waves.act(plan, 1, "approve", reason="Compared", by="Ada").status_code == 200
    found = _results(waves)
    assert (found["nothing_open"], found["four_eyes"]) == ("PASSED", "WARNING"), "the same key"


@pytest.mark.parametrize(
    ("body", "code", "attr"),
    [
        ({"check": "backup"}, "invalid_choice", "check"),
        ({"reason": " "}, "blank", "reason"),
        ({"ready_for": "lunch"}, "invalid_choice", "ready_for"),
        ({"checks": "backup_recent"}, "unknown_field", "checks"),
    ],
)
def test_an_acceptance_that_does_not_fit_is_named(
    waves: WaveClient, body: dict[str, str], code: str, attr: str
) -> None:
    answer = _accept(waves, **{"check": "backup_recent", **body})
    assert answer.status_code == 400, answer.text
    assert [(it["code"], it["attr"]) for it in answer.json["errors"]] == [(code, attr)]
