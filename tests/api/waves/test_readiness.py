"""Whether a supplier is ready: what each check says as things change, and what a person may accept."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import AccountImportProcess, Backup, ImportSupplier
from migration_service.payment_vendors.answers import note_failure
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.backups import record_backup
from migration_service.services.setup.teams import create_operations_team
from migration_service.services.setup.vendors import create_payment_vendor
from support.audit import audited
from support.wave_client import NIGHT, WaveClient

REST = {"rest": True}
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
