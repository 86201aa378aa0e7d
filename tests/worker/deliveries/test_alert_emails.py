"""Alerts: who runs a migration is told of what waits for them, through a real mail server, once each."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import delete, func, select, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.models import AlertEmail
from migration_service.services.alerts.messages import record_alerts
from migration_service.services.batches.intake import upload
from migration_service.services.reconciliation.submitted import Submitted
from migration_service.tasks import deliveries as delivery_tasks
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.deliveries import sweep_deliveries
from support.interleavings import COMMIT, Script, explore
from support.mail_box import SENDER, Mailbox
from support.messages import noted_messages
from support.wave_client import EVENING, NIGHT, WaveClient
from worker.deliveries.conftest import send_all

ADA, BEN = "ada@migration.example", "ben@migration.example"
CONSOLE = "https://migration.example/console/"


@pytest.fixture(autouse=True)
def _in_the_evening(waves: WaveClient) -> None:
    waves.now = EVENING


@pytest.fixture
def celery(make_celery: Callable[..., MigrationCelery], controller: Any) -> MigrationCelery:
    url = f"smtp://127.0.0.1:{controller.port}"
    told = f"{ADA}, {BEN},, {ADA}"
    return make_celery(smtp_url=url, email_from=SENDER, alert_emails=told, console_url=CONSOLE)


def _send_due() -> int:
    """Let the sweep and the worker do what is due. Return how many messages that were."""
    with noted_messages():
        sweep_deliveries()
    return send_all()


def _texts(mailbox: Mailbox) -> list[tuple[str, str]]:
    return [(str(it["Subject"]), it.get_content()) for it in mailbox.messages]


def _start_broken(waves: WaveClient) -> str:
    """Return a batch of which the second line is not begun."""
    lines = [{"external_account_number": f"secret-{number}"} for number in range(3)]
    with patch.object(upload, "CHUNK_LINES", 1):
        return waves.batches.start(lines, stop_after_errors=1)


def test_a_batch_that_the_error_threshold_paused_is_told_to_each_once(
    waves: WaveClient, celery: MigrationCelery, mailbox: Mailbox
) -> None:
    batch_id = _start_broken(waves)
    assert _send_due() == 0
    waves.batches.work()
    assert (_send_due(), _send_due()) == (2, 0)
    assert sorted(mailbox.recipients) == [ADA, BEN]
    subject, body = _texts(mailbox)[0]
    assert "paused after too many errors" in subject
    assert waves.supplier.code in subject
    assert "1 of 3 lines are processed, and 1 of them failed." in body
    assert "The commonest error is customer_required, on 1 line." in body
    assert f"{CONSOLE}batches/{batch_id}/" in body
    assert "docs/operators/runbooks.md#migrationbatchpaused" in body
    assert "secret-" not in str(mailbox.messages[0])
    assert mailbox.messages[0].get_content_type() == "text/plain"
    waves.batches.change(batch_id, "resume")
    assert _send_due() == 0
    waves.batches.work()
    assert _send_due() == 2, "it was paused once more"
    _start_broken(waves)
    waves.batches.work()
    assert _send_due() == 2, "another one is paused, too"


def test_a_wave_that_waits_for_a_decision_is_told_until_it_is_decided(
    waves: WaveClient, celery: MigrationCelery, mailbox: Mailbox
) -> None:
    waves.stage(6)
    hold = {"continue_if_clean": False}
    plan = waves.plan(
        {"size": 2, "name": "Pilot", **hold},
        {"size": 2, **hold},
        {"rest": True},
        window=NIGHT,
        continue_if_clean=True,
    )
    waves.run()
    assert (_send_due(), _send_due()) == (2, 0)
    subject, body = _texts(mailbox)[0]
    assert subject == f"{waves.supplier.code}: wave 1 is clean and waits for a decision"
    assert f"{CONSOLE}waves/{plan['plan_id']}/1/" in body
    assert "#migrationapprovalwaits" in body
    waves.act(plan, 1, "approve", reason="known")
    with patch("migration_service.services.reconciliation.submitted.count_submitted") as sent:
        sent.return_value = Submitted(open=1)
        waves.run()
        assert _send_due() == 2
    subject, body = _texts(mailbox)[2]
    assert "wave 2 differs and waits for a decision" in subject
    assert "differ from their staged payload: 0. Open accounts: 1." in body
    waves.act(plan, 2, "approve", reason="known")
    waves.run()
    assert waves.states(plan)[2] == "CLEAN"
    assert _send_due() == 0, "nobody has to decide about the last one"


def test_an_address_that_is_none_is_refused_and_the_others_are_told(
    waves: WaveClient,
    make_celery: Callable[..., MigrationCelery],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    _start_broken(waves)
    waves.batches.work()
    make_celery(smtp_url=celery.settings.smtp_url, email_from=SENDER, alert_emails=f"nobody, {BEN}")
    assert _send_due() == 2
    assert mailbox.recipients == [BEN]
    with sessions() as session:
        states = select(AlertEmail.recipient, AlertEmail.state).where(
            AlertEmail.recipient.in_(["nobody", BEN])
        )
        assert dict(session.execute(states).all())["nobody"] == "REFUSED"
    assert "migration-client batches show" in _texts(mailbox)[0][1], "there is no address of a console"


def test_what_hinders_the_recording_hinders_no_message_that_is_due(
    waves: WaveClient, celery: MigrationCelery, caplog: pytest.LogCaptureFixture
) -> None:
    _start_broken(waves)
    waves.batches.work()
    sweep_deliveries()
    with waves.supplier.Session.begin() as session:
        session.execute(update(AlertEmail).values(next_try_at=func.now()))
    fault = OperationalError("SELECT", {}, Exception("canceled"))
    with patch.object(delivery_tasks, "record_alerts", side_effect=fault):
        assert _send_due() == 2
    assert "Alerts were not recorded" in caplog.text


def test_two_sweeps_at_once_record_a_message_once(waves: WaveClient, sessions: sessionmaker[Session]) -> None:
    _start_broken(waves)
    waves.batches.work()

    def record(session: Session) -> None:
        record_alerts(session, [ADA, BEN], "")

    def script() -> Script:
        with sessions.begin() as session:
            session.execute(delete(AlertEmail))
        yield {name: [("record", record), COMMIT] for name in ("one", "other")}
        with sessions() as session:
            rows = session.execute(
                select(AlertEmail.recipient).where(AlertEmail.subject.contains(waves.supplier.code))
            )
            assert sorted(rows.scalars()) == [ADA, BEN]

    assert explore(sessions, script) >= 2
