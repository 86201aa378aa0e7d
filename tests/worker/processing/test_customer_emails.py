"""Customer e-mails: recorded with the account, sent by a worker through a real mail server, never lost."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from migration_service.db.sql import OpenTransaction
from migration_service.models import Account, Customer, CustomerEmail
from migration_service.services.emails.customer_emails import deliver_email, record_customer_emails
from migration_service.services.emails.outbox import hold_due, mail_server, take_due
from migration_service.services.processing.attempts import run_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailState
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.emails import send_customer_email, sweep_customer_emails
from migration_service.tasks.names import SEND_CUSTOMER_EMAIL
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.imported_account import ImportedAccount
from support.mail_box import SENDER, Mailbox
from support.messages import noted_messages
from support.supplier_client import SupplierClient

ANNE = {"given_name": "Anne", "family_name": "de Vries", "email": "anne@customers.example"}
BART = {"given_name": "Bart", "family_name": "Bakker", "email": "bart@customers.example"}
SILENT = {"given_name": "Carla", "family_name": "Smit"}
THREE = (ANNE, BART, ANNE | {"given_name": "Another"})
NAMED = "<named@sample-energy.example>"


@dataclass
class Outbox:
    """The messages to the customers of a supplier, and the mail server that a worker gives them to."""

    supplier: SupplierClient
    resources: WorkerResources
    controller: Controller
    box: Mailbox
    celery: MigrationCelery
    make_celery: Callable[..., MigrationCelery]

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

    def states(self, ids: list[int]) -> list[tuple[str, int]]:
        """Return the state of each message, and how often it failed."""
        return [(row.state, row.failures) for row in map(self.row, ids)]

    def change(self, email_id: int, **values: Any) -> None:
        with self.supplier.Session.begin() as session:
            session.execute(update(CustomerEmail).where(CustomerEmail.id == email_id).values(**values))

    def deliver(self, session: Session, email_id: int) -> bool:
        return deliver_email(session, email_id, mail_server(self.celery.settings))

    def due(self) -> set[int]:
        """Return the messages that the next sweep dispatches, and let it do so again."""
        with self.supplier.Session() as session:
            return set(take_due(session, CustomerEmail, 10_000))

    @contextmanager
    def server_that_is_back(self) -> Iterator[None]:
        again = Controller(self.box, hostname="127.0.0.1", port=self.controller.port)
        again.start()
        yield
        again.stop()


@pytest.fixture
def outbox(
    batches: BatchClient,
    controller: Controller,
    mailbox: Mailbox,
    celery: MigrationCelery,
    make_celery: Callable[..., MigrationCelery],
) -> Outbox:
    with batches.supplier.Session.begin() as session:
        set_customer_emails(session, batches.supplier.code, on=True)
    return Outbox(batches.supplier, batches.resources, controller, mailbox, celery, make_celery)


def test_each_customer_with_an_address_gets_one_message_in_text_and_html(outbox: Outbox) -> None:
    for email_id in outbox.create(ANNE, SILENT, BART):
        send_customer_email(email_id)
    assert outbox.box.recipients == ["anne@customers.example", "bart@customers.example"]
    for message, name in zip(outbox.box.messages, ("Anne de Vries", "Bart Bakker"), strict=True):
        assert {"text/plain", "text/html"} <= {part.get_content_type() for part in message.walk()}
        plain = message.get_body(("plain",))
        assert plain is not None
        assert name in plain.get_content()
        assert str(message["Subject"]).startswith("Welcome")


def test_a_dry_run_records_nothing(outbox: Outbox) -> None:
    number = outbox.stage(dry_run=True)
    assert perform_attempt(outbox.resources.Session, outbox.supplier.current_attempt(number))
    assert outbox.supplier.status(number).json["status"] == "UNKNOWN"  # type: ignore[index]
    with outbox.supplier.Session() as session:
        assert session.scalar(select(func.count()).select_from(CustomerEmail)) == 0


def test_messages_are_recorded_in_the_transaction_that_creates_the_account(outbox: Outbox) -> None:
    number = outbox.stage()
    attempt_id = outbox.supplier.current_attempt(number)
    with outbox.resources.Session() as session:
        assert run_attempt(OpenTransaction.of(session), attempt_id)
        session.rollback()  # the process dies here
    assert outbox.of(number) == []
    assert perform_attempt(outbox.resources.Session, attempt_id)
    assert len(outbox.of(number)) == 1


def test_messages_are_recorded_for_the_customers_of_suppliers_that_send_them_once_each(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    others = [SupplierClient.create(supplier.app, supplier.Session) for _ in range(2)]
    both = [ANNE, SILENT]
    accounts = [ImportedAccount.create(it, worker_resources, customers=both) for it in (supplier, *others)]
    created = Account.external_account_number.in_([it.number for it in accounts[:2]])
    with supplier.Session.begin() as session:
        assert session.scalars(select(CustomerEmail)).all() == [], "nobody has asked for messages"
        for it in others:
            set_customer_emails(session, it.code, on=True)
        processes = session.scalars(select(Account.account_import_process_id).where(created)).all()
        record_customer_emails(OpenTransaction.of(session), processes)
        owners = select(Account.external_account_number).join(Customer).join(CustomerEmail)
        assert session.scalars(owners).all() == [accounts[1].number]


def test_a_message_that_was_sent_is_not_sent_again(outbox: Outbox) -> None:
    (email_id,) = outbox.create(ANNE)
    send_customer_email(email_id)
    send_customer_email(email_id)
    row = outbox.row(email_id)
    assert (row.state, row.failures, row.error) == (EmailState.SENT, 0, None)
    assert row.sent_at is not None
    assert outbox.box.message_ids == [row.message_id]
    outbox.change(email_id, next_try_at=func.now() - text("interval '1 second'"))
    assert outbox.due() == set()


def test_after_a_crash_between_sending_and_commit_the_repeat_has_the_same_message_id(outbox: Outbox) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.change(email_id, message_id=NAMED)
    with outbox.supplier.Session() as session:
        assert outbox.deliver(session, email_id)
        session.rollback()  # the process dies here
    assert outbox.row(email_id).state == EmailState.PENDING
    send_customer_email(email_id)
    first, second = outbox.box.message_ids
    assert first == second
    assert outbox.box.messages[0]["Date"] == outbox.box.messages[1]["Date"]
    assert outbox.row(email_id).state == EmailState.SENT


def test_a_message_that_another_worker_is_sending_is_left_to_it(outbox: Outbox) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.change(email_id, message_id=NAMED)
    with outbox.supplier.Session() as another, outbox.supplier.Session.begin() as session:
        another.execute(select(CustomerEmail.id).where(CustomerEmail.id == email_id).with_for_update())
        assert outbox.deliver(session, email_id)
    assert outbox.box.messages == []
    assert outbox.row(email_id).state == EmailState.PENDING


def test_a_message_has_its_name_in_the_database_before_it_is_sent(outbox: Outbox) -> None:
    (email_id,) = outbox.create(ANNE)
    known: list[str | None] = []
    outbox.box.before_answer = lambda: known.append(outbox.row(email_id).message_id)
    send_customer_email(email_id)
    assert known == outbox.box.message_ids


def test_while_the_mail_server_is_unavailable_a_message_waits(outbox: Outbox) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.controller.stop()
    send_customer_email(email_id)
    waiting = outbox.row(email_id)
    assert (waiting.state, waiting.failures) == (EmailState.PENDING, 1)
    assert waiting.error == "The mail server cannot be reached (ConnectionRefusedError)."
    assert (waiting.next_try_at - waiting.created_at).total_seconds() >= 60
    with outbox.server_that_is_back():
        send_customer_email(email_id)
    assert outbox.box.message_ids == [waiting.message_id]
    assert outbox.row(email_id).state == EmailState.SENT


def test_a_mail_server_that_stays_unavailable_is_not_called_for_a_while(outbox: Outbox) -> None:
    ids = outbox.create(*THREE)
    outbox.controller.stop()
    for email_id in ids:
        send_customer_email(email_id)
    assert outbox.states(ids) == [("PENDING", 1), ("PENDING", 1), ("PENDING", 0)]
    held = outbox.row(ids[2])
    assert held.next_try_at - held.created_at > timedelta(seconds=29)


def test_an_answer_of_the_mail_server_resets_the_count_of_failures(outbox: Outbox) -> None:
    ids = outbox.create(*THREE)
    outbox.controller.stop()
    send_customer_email(ids[0])
    with outbox.server_that_is_back():
        send_customer_email(ids[0])
    send_customer_email(ids[1])
    send_customer_email(ids[2])
    told = "two failures that are not in a row delayed a message"
    assert outbox.states(ids) == [("SENT", 1), ("PENDING", 1), ("PENDING", 1)], told


@pytest.mark.parametrize(
    ("answer", "state", "failures"),
    [("550 no such user", EmailState.REFUSED, 0), ("451 try later", EmailState.PENDING, 1)],
)
def test_a_refusal_is_final_and_a_delay_is_not(
    outbox: Outbox, answer: str, state: EmailState, failures: int
) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.box.answer = answer
    send_customer_email(email_id)
    row = outbox.row(email_id)
    assert (row.state, row.failures) == (state, failures)
    assert answer[:3] in str(row.error)
    assert ANNE["email"] not in str(row.error)
    outbox.box.answer = "250 taken"
    send_customer_email(email_id)
    assert len(outbox.box.messages) == (0 if state == EmailState.REFUSED else 1)


@pytest.mark.parametrize(("failures", "pause"), [(0, 60), (5, 1_920), (6, 3_600), (9, 3_600)])
def test_the_pause_after_a_failure_doubles_up_to_an_hour(outbox: Outbox, failures: int, pause: int) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.change(email_id, message_id=NAMED)
    outbox.change(email_id, failures=failures)
    outbox.box.answer = "451 try later"
    with outbox.supplier.Session.begin() as session:
        begun = session.scalars(select(func.clock_timestamp())).one()
        assert outbox.deliver(session, email_id) is True
        ended = session.scalars(select(func.clock_timestamp())).one()
    row = outbox.row(email_id)
    assert begun <= row.next_try_at - timedelta(seconds=pause) <= ended
    assert row.failures == failures + 1


def test_the_sweep_dispatches_a_due_message_and_only_after_a_while_again(outbox: Outbox) -> None:
    (email_id,) = outbox.create(ANNE)
    message = (SEND_CUSTOMER_EMAIL, (email_id,))
    with noted_messages() as published:
        for _ in range(2):
            sweep_customer_emails()
            assert published == [message]
        outbox.change(email_id, next_try_at=func.now())
        sweep_customer_emails()
        assert published == [message, message]


def test_the_oldest_messages_that_are_due_are_taken_and_those_that_a_worker_has_are_not(
    outbox: Outbox,
) -> None:
    ids = outbox.create(*(ANNE | {"given_name": name} for name in "ABCDE"))
    for email_id, seconds in zip(ids, (10, 50, 30, 40, -20), strict=True):
        outbox.change(email_id, next_try_at=func.now() - timedelta(seconds=seconds))
    with outbox.supplier.Session() as worker, outbox.supplier.Session() as session:
        worker.execute(select(CustomerEmail.id).where(CustomerEmail.id == ids[1]).with_for_update())
        session.execute(text("SET LOCAL lock_timeout = '5s'"))
        assert set(take_due(session, CustomerEmail, 2)) == {ids[2], ids[3]}
        assert hold_due(session, CustomerEmail) == 1, "of the others one is due that no worker has"


def test_without_a_broker_the_sweep_stops_at_the_first_message_and_the_next_one_finds_them_all(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    ids = outbox.create(ANNE) + outbox.create(ANNE)
    outbox.make_celery(smtp_url="smtp://127.0.0.1", email_from=SENDER, redis_url="redis://127.0.0.1:1")
    sweep_customer_emails()
    assert caplog.text.count("The broker is unavailable") == 1
    for email_id in ids:
        outbox.change(email_id, next_try_at=func.now())
    assert outbox.due() == set(ids)


def test_organisations_take_turns_with_their_messages(outbox: Outbox) -> None:
    first, second, older_version = outbox.create(*(ANNE | {"given_name": name} for name in "ABC"))
    outbox.change(older_version, organisation_id=0)
    for seconds, email_id in enumerate((older_version, second, first), start=1):
        outbox.change(email_id, next_try_at=func.now() - timedelta(seconds=seconds))
    with outbox.supplier.Session() as session:
        assert set(take_due(session, CustomerEmail, 2)) == {first, older_version}
        assert take_due(session, CustomerEmail, 2) == [second]


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
    outbox: Outbox, caplog: pytest.LogCaptureFixture, configured: dict[str, str], reason: str
) -> None:
    (email_id,) = outbox.create(ANNE)
    outbox.make_celery(**configured)
    with caplog.at_level(logging.ERROR):
        sweep_customer_emails()
    assert reason in caplog.text
    assert "customer e-mails wait" in caplog.text
    assert outbox.states([email_id]) == [("PENDING", 0)]
    assert outbox.row(email_id).next_try_at > outbox.row(email_id).created_at
