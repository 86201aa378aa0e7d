"""E-mail to people: recorded with what causes it, sent through a real mail server, never lost."""

import logging
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import func, select, update

from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction
from migration_service.models import Account, AlertEmail, Customer, CustomerEmail
from migration_service.schemas.events import EventType
from migration_service.services.deliveries.claims import LEASE_SECONDS, Lanes, Outcome, Sent
from migration_service.services.deliveries.sender import Sender
from migration_service.services.emails.outbox import (
    MOST_AN_HOUR,
    EmailClaim,
    Emails,
    mail_server,
    new_breaker,
)
from migration_service.services.events.reading import read_events
from migration_service.services.events.recording import record
from migration_service.services.processing.attempts import run_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import DeliveryFailure, EmailMoment, EmailState
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.deliveries import sweep_deliveries
from migration_service.tasks.names import SEND_DELIVERIES
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount
from support.mail_box import SENDER, Mailbox
from support.messages import noted_messages
from support.servers import wait_until
from support.supplier_client import SupplierClient
from worker.deliveries.conftest import send_all

ANNE = {"given_name": "Anne", "family_name": "de Vries", "email": "anne@customers.example"}
BART = {"given_name": "Bart", "family_name": "Bakker", "email": "bart@customers.example"}
SILENT = {"given_name": "Carla", "family_name": "Smit"}


def _somebody() -> dict[str, Any]:
    return ANNE | {"email": f"{new_id().hex}@customers.example"}


@dataclass
class Outbox:
    """The messages to the customers of a supplier, and the mail server that a worker gives them to."""

    supplier: SupplierClient
    resources: WorkerResources
    controller: Controller
    box: Mailbox
    celery: MigrationCelery
    senders: list[Sender] = field(default_factory=list)

    def create(self, *customers: dict[str, Any]) -> list[int]:
        """Create an account with these customers, and return the keys of its messages."""
        account = ImportedAccount.create(self.supplier, self.resources, customers=list(customers))
        return self.of(account.number)

    def stage(self, **fields: Any) -> str:
        """Begin to create an account with a customer, and return its number."""
        (payload,) = self.supplier.accounts()
        self.supplier.stage(payload | {"customers": [ANNE]})
        self.supplier.process(number := str(payload["external_account_number"]), **fields)
        return number

    def of(self, number: str) -> list[int]:
        """Return the keys of the messages to the customers of an account."""
        of_account = select(CustomerEmail.id).join(Customer).join(Account)
        own = of_account.where(Account.external_account_number == number).order_by(CustomerEmail.id)
        with self.supplier.Session() as session:
            return list(session.scalars(own))

    def row(self, email_id: int) -> CustomerEmail:
        with self.supplier.Session() as session:
            return session.get_one(CustomerEmail, email_id)

    def states(self, ids: Sequence[int]) -> list[tuple[str, int]]:
        """Return the state of each message, and how often it failed."""
        return [(row.state, row.failures) for row in map(self.row, ids)]

    def change(self, email_id: int, **values: Any) -> None:
        with self.supplier.Session.begin() as session:
            session.execute(update(CustomerEmail).where(CustomerEmail.id == email_id).values(**values))

    def emails(self) -> Emails:
        return Emails(CustomerEmail, mail_server(self.celery.settings), self.celery.resources.redis)

    def sender(self, *outboxes: Emails) -> Sender:
        self.senders.append(Sender(self.supplier.Session, outboxes or [self.emails()]))
        return self.senders[-1]

    def send(self, *ids: int, sender: Sender | None = None) -> None:
        """Make these messages due, and send what is due as a worker does."""
        for email_id in ids:
            self.change(email_id, next_try_at=func.now())
        sending = sender or self.sender()

        def is_done() -> bool:
            sending.run(0.05)
            return not sending.is_busy and not self.has_due()

        wait_until(is_done, "the messages are sent")

    def has_due(self) -> bool:
        due = select(CustomerEmail.id).where(
            CustomerEmail.state == EmailState.PENDING, CustomerEmail.next_try_at <= func.clock_timestamp()
        )
        with self.supplier.Session() as session:
            return session.scalar(due) is not None

    def claim(self) -> set[int]:
        """Take what a worker would take now that gave two messages to the mail server before."""
        lanes = Lanes()
        lanes._widths["customer_email"] = 2
        with self.supplier.Session.begin() as session:
            return {it.id for it in self.emails().claim(session, lanes.rooms())}

    @contextmanager
    def server_that_is_back(self) -> Iterator[None]:
        again = Controller(self.box, hostname="127.0.0.1", port=self.controller.port)
        again.start()
        yield
        again.stop()


@pytest.fixture
def outbox(
    batches: BatchClient, controller: Controller, mailbox: Mailbox, celery: MigrationCelery
) -> Iterator[Outbox]:
    with batches.supplier.Session.begin() as session:
        set_customer_emails(session, batches.supplier.code, on=True, at=EmailMoment.AT_CREATION)
        session.execute(update(CustomerEmail).values(state=EmailState.REFUSED, sent_at=None))
    outbox = Outbox(batches.supplier, batches.resources, controller, mailbox, celery)
    yield outbox
    for sender in outbox.senders:
        sender.finish(15)


def test_each_customer_with_an_address_gets_one_message_without_anything_that_a_client_wrote(
    outbox: Outbox,
) -> None:
    ids = outbox.create(ANNE, SILENT, BART)
    outbox.send()
    outbox.send()
    assert sorted(outbox.box.recipients) == ["anne@customers.example", "bart@customers.example"]
    for message in outbox.box.messages:
        assert {"text/plain", "text/html"} <= {part.get_content_type() for part in message.walk()}
        assert str(message["Subject"]).startswith("Welcome")
        assert not any(name in message.as_string() for name in ("Anne", "Vries", "Bart", "Bakker"))
    row = outbox.row(ids[0])
    assert (row.state, row.failures, row.error, row.leased_until) == (EmailState.SENT, 0, None, None)
    assert sorted(outbox.box.message_ids) == sorted(str(outbox.row(it).message_id) for it in ids)


def test_messages_are_recorded_in_the_transaction_that_creates_the_account(outbox: Outbox) -> None:
    number = outbox.stage(dry_run=True)
    assert perform_attempt(outbox.resources.Session, outbox.supplier.current_attempt(number))
    number = outbox.stage()
    attempt_id = outbox.supplier.current_attempt(number)
    with outbox.resources.Session() as session:
        assert run_attempt(OpenTransaction.of(session), attempt_id)
        session.rollback()  # the process dies here
    with outbox.supplier.Session() as session:
        assert session.scalar(select(func.count()).select_from(CustomerEmail)) == 0
    assert perform_attempt(outbox.resources.Session, attempt_id)
    assert len(outbox.of(number)) == 1


def test_while_the_mail_server_says_nothing_no_transaction_is_open_and_events_are_read(
    outbox: Outbox,
) -> None:
    (email_id,) = outbox.create(ANNE)
    is_asked, may_answer = threading.Event(), threading.Event()
    known: list[str | None] = []

    def hang() -> None:
        known.append(outbox.row(email_id).message_id)
        is_asked.set()
        may_answer.wait(60)

    outbox.box.before_answer = hang
    sender = outbox.sender()
    wait_until(lambda: sender.run(0.05) or is_asked.is_set(), "the server has the message")
    assert outbox.supplier.Session.kw["bind"].pool.checkedout() == 0
    owner = outbox.supplier.organisation_id()
    with outbox.supplier.Session.begin() as session:
        record(session, EventType.BATCH_ENDED, {"is": "new"}, organisation_id=owner)
    with outbox.supplier.Session.begin() as session:
        page = read_events(session, owner, None, types=[EventType.BATCH_ENDED], limit=100)
        assert "new" in page.events[-1].body, "an event waits behind a message"
    may_answer.set()
    outbox.send(sender=sender)
    assert known == outbox.box.message_ids
    assert outbox.states([email_id]) == [("SENT", 0)]


def test_a_conversation_ends_however_slowly_the_server_answers(outbox: Outbox) -> None:
    """It sends a line of a greeting that does not end now and then, and never the last one."""
    (email_id,) = outbox.create(ANNE)
    is_over = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            while not is_over.wait(0.05):
                try:
                    connection.sendall(b"220-wait\r\n")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=partial(drip, listener))
        thread.start()
        emails = outbox.emails()
        server = mail_server(outbox.celery.settings)
        smtp = replace(server.smtp, port=listener.getsockname()[1], timeout_seconds=0.5)
        emails._server = replace(server, smtp=smtp)
        outbox.send(sender=outbox.sender(emails))
        is_over.set()
        thread.join()
    row = outbox.row(email_id)
    assert (row.state, row.failures) == ("PENDING", 1)
    assert "cannot be reached" in str(row.error)


def test_after_a_crash_between_sending_and_recording_the_repeat_has_the_same_message_id(
    outbox: Outbox,
) -> None:
    (email_id,) = outbox.create(ANNE)
    emails = outbox.emails()
    with outbox.supplier.Session.begin() as session:
        (claim,) = emails.claim(session, Lanes().rooms())
    assert emails.send(claim).failure is None  # and the process dies here
    outbox.send()
    assert len(outbox.box.messages) == 1, "another worker has its lease"
    outbox.change(email_id, next_try_at=func.now() - timedelta(seconds=LEASE_SECONDS))
    outbox.send()
    first, second = outbox.box.messages
    assert (first["Message-ID"], first["Date"]) == (second["Message-ID"], second["Date"])
    assert outbox.row(email_id).state == EmailState.SENT


def test_a_mail_server_that_stays_unavailable_is_left_alone_and_messages_wait(outbox: Outbox) -> None:
    ids = outbox.create(*(_somebody() for _ in range(3)))
    outbox.controller.stop()
    sender = outbox.sender()

    def have_failed() -> bool:
        sender.run(0.05)
        return [failures for _, failures in outbox.states(ids)].count(1) == 2

    wait_until(have_failed, "two fail")
    sender.run(0.2)
    assert sorted(outbox.states(ids)) == [("PENDING", 0), ("PENDING", 1), ("PENDING", 1)]
    waiting = next(row for row in map(outbox.row, ids) if row.failures)
    assert waiting.error == "The mail server cannot be reached (ConnectionRefusedError)."
    assert (waiting.next_try_at - waiting.created_at).total_seconds() >= 60
    with outbox.server_that_is_back():
        outbox.send(*ids)
    assert waiting.message_id in outbox.box.message_ids
    assert [state for state, _ in outbox.states(ids)] == ["SENT"] * 3


def test_only_failures_in_a_row_open_the_breaker(outbox: Outbox) -> None:
    breaker = new_breaker()
    emails = Emails(
        CustomerEmail, mail_server(outbox.celery.settings), outbox.celery.resources.redis, breaker
    )
    values: dict[str, Any] = {
        "message_id": "<1@x>",
        "written_at": datetime.now(UTC),
        "recipient": "a@b.example",
        "subject": "",
    }
    claim = EmailClaim(id=0, destination="customer_email", organisation_id=0, attempts=0, **values)
    lost, delayed = DeliveryFailure.CONNECTION, DeliveryFailure.STATUS
    for failures, allows in (
        ((lost, None, lost), True),
        ((lost, delayed, lost), True),
        ((lost, lost), False),
    ):
        with outbox.supplier.Session.begin() as session:
            emails.record(session, [Sent(claim, claim.written_at, 0.1, Outcome())])
            for failure in failures:
                emails.record(session, [Sent(claim, claim.written_at, 0.1, Outcome(failure=failure))])
        assert breaker.allows_call() == allows


@pytest.mark.parametrize(
    ("answer", "failures", "state", "pause"),
    [
        ("550 no such user", 0, "REFUSED", None),
        ("451 try later", 0, "PENDING", 60),
        ("451 try later", 5, "PENDING", 1_920),
        ("451 try later", 9, "PENDING", 3_600),
    ],
)
def test_a_refusal_is_final_and_the_pause_after_a_delay_doubles_up_to_an_hour(
    outbox: Outbox, answer: str, failures: int, state: str, pause: int | None
) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.change(email_id, failures=failures)
    outbox.box.answer = answer
    outbox.send()
    row = outbox.row(email_id)
    assert (row.state, row.failures) == (state, failures + (pause is not None))
    assert answer[:3] in str(row.error)
    assert ANNE["email"] not in str(row.error)
    if pause is not None:
        with outbox.supplier.Session() as session:
            now = session.scalars(select(func.clock_timestamp())).one()
        assert timedelta(0) <= now - (row.next_try_at - timedelta(seconds=pause)) < timedelta(minutes=1)
    outbox.box.answer = "250 taken"
    outbox.send(email_id)
    assert len(outbox.box.messages) == (state == "PENDING")
    assert bool(outbox.row(email_id).error) == (state == "REFUSED")


def test_one_address_gets_a_few_messages_an_hour_and_the_others_wait(outbox: Outbox) -> None:
    (delayed,) = outbox.create(ANNE)
    outbox.box.answer = "451 try later"
    for _ in range(MOST_AN_HOUR):  # what it did not get does not count
        outbox.send(delayed)
    outbox.box.answer = "250 taken"
    ids = outbox.create(*(ANNE | {"given_name": f"A{number}"} for number in range(MOST_AN_HOUR + 3)), BART)
    outbox.send()
    assert sorted(outbox.box.recipients) == ["anne@customers.example"] * MOST_AN_HOUR + [BART["email"]]
    waiting = [row for row in map(outbox.row, ids) if row.state == EmailState.PENDING]
    assert [row.failures for row in waiting] == [0] * 3
    assert all(row.next_try_at - row.created_at > timedelta(minutes=59) for row in waiting)


def test_organisations_take_turns_and_the_oldest_message_comes_first(outbox: Outbox) -> None:
    first, second, of_another = outbox.create(*(_somebody() for _ in range(3)))
    stranger = SupplierClient.create(outbox.supplier.app, outbox.supplier.Session)
    outbox.change(of_another, organisation_id=stranger.organisation_id())
    for seconds, email_id in enumerate((of_another, second, first), start=1):
        outbox.change(email_id, next_try_at=func.now() - timedelta(seconds=seconds))
    assert outbox.claim() == {first, of_another}
    assert outbox.claim() == {second}


def test_the_sweep_announces_what_is_due_once_and_alerts_do_not_wait_behind_customers(outbox: Outbox) -> None:
    outbox.create(*(_somebody() for _ in range(4)))
    values = {"event": new_id().hex, "recipient": "lead@migration.example", "subject": "s", "body": "b"}
    with outbox.supplier.Session.begin() as session:
        session.execute(update(AlertEmail).values(state=EmailState.REFUSED, sent_at=None))
        session.add(AlertEmail(**values))
    with noted_messages() as published:
        sweep_deliveries()
        sweep_deliveries()
        assert published == [(SEND_DELIVERIES, ())]
    assert send_all() == 5
    assert "lead@migration.example" in outbox.box.recipients[:2]


@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        ({}, "MIGRATION_SERVICE_SMTP_URL is not set"),
        ({"smtp_url": "smtp://127.0.0.1"}, "MIGRATION_SERVICE_EMAIL_FROM is not set"),
        ({"smtp_url": "smtp://127.0.0.1", "email_from": "nobody"}, "MIGRATION_SERVICE_EMAIL_FROM must"),
        ({"smtp_url": "http://mail", "email_from": SENDER}, "MIGRATION_SERVICE_SMTP_URL must"),
    ],
)
def test_without_a_mail_server_messages_wait_and_the_log_says_why(
    outbox: Outbox,
    make_celery: Callable[..., MigrationCelery],
    caplog: pytest.LogCaptureFixture,
    configured: dict[str, str],
    reason: str,
) -> None:
    (email_id,) = outbox.create(ANNE)
    make_celery(**configured)
    alert = AlertEmail(event=new_id().hex, recipient="lead@migration.example", subject="s", body="b")
    with outbox.supplier.Session.begin() as session:
        session.execute(update(AlertEmail).values(state=EmailState.REFUSED, sent_at=None))
        session.add(alert)
    with caplog.at_level(logging.ERROR), noted_messages() as published:
        sweep_deliveries()
    assert reason in caplog.text
    assert "2 e-mails wait" in caplog.text
    assert published == []
    assert outbox.states([email_id]) == [("PENDING", 0)]
    assert outbox.row(email_id).next_try_at > outbox.row(email_id).created_at
    with outbox.supplier.Session() as session:
        session.add(alert)
        session.refresh(alert)
        assert alert.next_try_at > alert.created_at


def test_messages_have_a_queue_that_no_sweep_waits_in(celery: MigrationCelery) -> None:
    entries = celery.conf.beat_schedule.values()
    queues = {celery.amqp.router.route({}, it["task"])["queue"].name for it in entries}
    assert queues == {"maintenance"}
    assert celery.amqp.router.route({}, SEND_DELIVERIES)["queue"].name == "deliveries"
