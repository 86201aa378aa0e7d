"""Customer e-mails: recorded with the account, sent by a worker through a real mail server, never lost."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.statements import OpenTransaction
from migration_service.models import Account, Customer, CustomerEmail
from migration_service.services.emails.customer_emails import deliver_email, record_customer_emails
from migration_service.services.emails.outbox import hold_due, mail_server, name_message, take_due
from migration_service.services.processing.attempts import run_attempt
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.states import EmailState
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.emails import send_customer_email, sweep_customer_emails
from migration_service.tasks.names import SEND_CUSTOMER_EMAIL
from migration_service.tasks.resources import WorkerResources
from support.imported_account import ImportedAccount
from support.mail_box import SENDER, Mailbox
from support.messages import noted_messages
from support.supplier_client import SupplierClient

ANNE = {"given_name": "Anne", "family_name": "de Vries", "email": "anne@customers.example"}
BART = {"given_name": "Bart", "family_name": "Bakker", "email": "bart@customers.example"}
SILENT = {"given_name": "Carla", "family_name": "Smit"}


@pytest.fixture
def sending_supplier(supplier: SupplierClient) -> SupplierClient:
    """A supplier whose customers get e-mails."""
    with supplier.Session.begin() as session:
        set_customer_emails(session, supplier.code, on=True)
    return supplier


@pytest.fixture
def create(sending_supplier: SupplierClient, worker_resources: WorkerResources) -> Callable[..., list[int]]:
    """Create an account with these customers. Return the keys of its messages."""

    def create(*customers: dict[str, Any]) -> list[int]:
        account = ImportedAccount.create(sending_supplier, worker_resources, customers=list(customers))
        return _emails_of(account)

    return create


def _record(session: Session, accounts: Sequence[ImportedAccount]) -> None:
    """Record messages to the customers of these accounts, as creating them does."""
    these = Account.external_account_number.in_([it.number for it in accounts])
    processes = session.scalars(select(Account.account_import_process_id).where(these)).all()
    record_customer_emails(OpenTransaction.of(session), processes)


def _emails_of(account: ImportedAccount) -> list[int]:
    own = (
        select(CustomerEmail.id)
        .join(Customer, Customer.id == CustomerEmail.customer_pk)
        .join(Account, Account.id == Customer.account_pk)
        .where(Account.external_account_number == account.number)
        .order_by(CustomerEmail.id)
    )
    with account.supplier.Session() as session:
        return list(session.scalars(own))


def _row(sessions: sessionmaker[Session], email_id: int) -> CustomerEmail:
    with sessions() as session:
        return session.get_one(CustomerEmail, email_id)


def _make_due(sessions: sessionmaker[Session], email_id: int) -> None:
    with sessions.begin() as session:
        past = func.now() - text("interval '1 second'")
        session.execute(update(CustomerEmail).where(CustomerEmail.id == email_id).values(next_try_at=past))


def test_each_customer_with_an_address_gets_one_message_in_text_and_html(
    create: Callable[..., list[int]], celery: MigrationCelery, mailbox: Mailbox
) -> None:
    for email_id in create(ANNE, SILENT, BART):
        send_customer_email(email_id)
    assert mailbox.recipients == ["anne@customers.example", "bart@customers.example"]
    for message, name in zip(mailbox.messages, ("Anne de Vries", "Bart Bakker"), strict=True):
        kinds = {part.get_content_type() for part in message.walk()}
        assert {"text/plain", "text/html"} <= kinds
        plain = message.get_body(("plain",))
        assert plain is not None
        assert name in plain.get_content()
        assert str(message["Subject"]).startswith("Welcome")


def test_a_dry_run_records_nothing(
    sending_supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (payload,) = sending_supplier.accounts()
    payload["customers"] = [ANNE]
    number = payload["external_account_number"]
    sending_supplier.stage(payload)
    sending_supplier.process(number, dry_run=True)
    with sending_supplier.Session() as session:
        before = session.scalar(select(func.count()).select_from(CustomerEmail))
    assert perform_attempt(worker_resources.Session, sending_supplier.current_attempt(number))
    assert sending_supplier.status(number).json["status"] == "UNKNOWN"  # type: ignore[index]
    assert _emails_of(ImportedAccount(sending_supplier, number)) == []
    with sending_supplier.Session() as session:
        assert session.scalar(select(func.count()).select_from(CustomerEmail)) == before


def test_messages_are_recorded_in_the_transaction_that_creates_the_account(
    sending_supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    (payload,) = sending_supplier.accounts()
    payload["customers"] = [ANNE]
    number = payload["external_account_number"]
    sending_supplier.stage(payload)
    sending_supplier.process(number)
    attempt_id = sending_supplier.current_attempt(number)
    with worker_resources.Session() as session:
        assert run_attempt(OpenTransaction.of(session), attempt_id)
        session.rollback()  # the process dies here
    assert _emails_of(ImportedAccount(sending_supplier, number)) == []
    assert perform_attempt(worker_resources.Session, attempt_id)
    assert len(_emails_of(ImportedAccount(sending_supplier, number))) == 1


def test_a_message_that_was_sent_is_not_sent_again(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    (email_id,) = create(ANNE)
    send_customer_email(email_id)
    send_customer_email(email_id)
    row = _row(sessions, email_id)
    assert (row.state, row.failures, row.error) == (EmailState.SENT, 0, None)
    assert row.sent_at is not None
    assert mailbox.message_ids == [row.message_id]


def test_after_a_crash_between_sending_and_commit_the_repeat_has_the_same_message_id(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    (email_id,) = create(ANNE)
    server = mail_server(celery.settings)
    with sessions.begin() as session:
        name_message(session, CustomerEmail, email_id, server.sender)
    with sessions() as session:
        assert deliver_email(session, email_id, server)
        session.rollback()  # the process dies here
    assert _row(sessions, email_id).state == EmailState.PENDING
    send_customer_email(email_id)
    first, second = mailbox.message_ids
    assert first == second
    assert mailbox.messages[0]["Date"] == mailbox.messages[1]["Date"]
    assert _row(sessions, email_id).state == EmailState.SENT


def test_a_message_that_another_worker_is_sending_is_left_to_it(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    (email_id,) = create(ANNE)
    with sessions.begin() as session:
        name_message(session, CustomerEmail, email_id, SENDER)
    with sessions.begin() as session:
        locked = select(CustomerEmail.id).where(CustomerEmail.id == email_id).with_for_update()
        assert session.scalar(locked) == email_id
        server = mail_server(celery.settings)
        with sessions.begin() as other:
            assert deliver_email(other, email_id, server)
    assert mailbox.messages == []
    assert _row(sessions, email_id).state == EmailState.PENDING


def test_a_message_has_its_name_in_the_database_before_it_is_sent(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    (email_id,) = create(ANNE)
    known: list[str | None] = []
    mailbox.before_answer = lambda: known.append(_row(sessions, email_id).message_id)
    send_customer_email(email_id)
    assert known == mailbox.message_ids


def test_while_the_mail_server_is_unavailable_a_message_waits(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    controller: Controller,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    (email_id,) = create(ANNE)
    controller.stop()
    send_customer_email(email_id)
    waiting = _row(sessions, email_id)
    assert (waiting.state, waiting.failures) == (EmailState.PENDING, 1)
    assert waiting.error == "The mail server cannot be reached (ConnectionRefusedError)."
    assert (waiting.next_try_at - waiting.created_at).total_seconds() >= 60
    again = Controller(mailbox, hostname="127.0.0.1", port=controller.port)
    again.start()
    send_customer_email(email_id)
    again.stop()
    assert mailbox.message_ids == [waiting.message_id]
    assert _row(sessions, email_id).state == EmailState.SENT


def test_a_mail_server_that_stays_unavailable_is_not_called_for_a_while(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    controller: Controller,
    sessions: sessionmaker[Session],
) -> None:
    ids = create(ANNE, BART, ANNE | {"given_name": "Another"})
    controller.stop()
    for email_id in ids:
        send_customer_email(email_id)
    assert [_row(sessions, email_id).failures for email_id in ids] == [1, 1, 0]
    assert {_row(sessions, email_id).state for email_id in ids} == {EmailState.PENDING}
    held = _row(sessions, ids[2])
    assert held.next_try_at - held.created_at > timedelta(seconds=29)


def test_an_answer_of_the_mail_server_resets_the_count_of_failures(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    controller: Controller,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
) -> None:
    ids = create(ANNE, BART, ANNE | {"given_name": "Another"})
    controller.stop()
    send_customer_email(ids[0])
    again = Controller(mailbox, hostname="127.0.0.1", port=controller.port)
    again.start()
    send_customer_email(ids[0])
    again.stop()
    send_customer_email(ids[1])
    send_customer_email(ids[2])
    rows = [_row(sessions, email_id) for email_id in ids]
    assert [row.state for row in rows] == [EmailState.SENT, EmailState.PENDING, EmailState.PENDING]
    assert [row.failures for row in rows] == [1, 1, 1], "two failures that are not in a row delayed a message"


@pytest.mark.parametrize(
    ("answer", "state", "failures"),
    [("550 no such user", EmailState.REFUSED, 0), ("451 try later", EmailState.PENDING, 1)],
)
def test_a_refusal_is_final_and_a_delay_is_not(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
    *,
    answer: str,
    state: EmailState,
    failures: int,
) -> None:
    (email_id,) = create(ANNE)
    mailbox.answer = answer
    send_customer_email(email_id)
    row = _row(sessions, email_id)
    assert (row.state, row.failures) == (state, failures)
    assert row.error is not None
    assert answer[:3] in row.error
    assert ANNE["email"] not in row.error
    mailbox.answer = "250 taken"
    send_customer_email(email_id)
    assert len(mailbox.messages) == (0 if state == EmailState.REFUSED else 1)


def test_the_sweep_dispatches_a_due_message_and_only_after_a_while_again(
    create: Callable[..., list[int]], celery: MigrationCelery, sessions: sessionmaker[Session]
) -> None:
    (email_id,) = create(ANNE)
    message = (SEND_CUSTOMER_EMAIL, (email_id,))
    with noted_messages() as published:
        sweep_customer_emails()
        assert published == [message]
        sweep_customer_emails()
        assert published == [message]
        _make_due(sessions, email_id)
        sweep_customer_emails()
        assert published == [message, message]


def test_without_a_broker_the_sweep_stops_at_the_first_message_and_the_next_one_finds_them_all(
    create: Callable[..., list[int]],
    make_celery: Callable[..., MigrationCelery],
    sessions: sessionmaker[Session],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ids = create(ANNE) + create(ANNE)
    make_celery(smtp_url="smtp://127.0.0.1", email_from=SENDER, broker_url="redis://127.0.0.1:1")
    sweep_customer_emails()
    assert caplog.text.count("The broker is unavailable") == 1
    for email_id in ids:
        _make_due(sessions, email_id)
    with sessions.begin() as session:
        assert set(ids) <= set(take_due(session, CustomerEmail, 10_000))


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
    create: Callable[..., list[int]],
    make_celery: Callable[..., MigrationCelery],
    sessions: sessionmaker[Session],
    caplog: pytest.LogCaptureFixture,
    *,
    configured: dict[str, str],
    reason: str,
) -> None:
    (email_id,) = create(ANNE)
    make_celery(**configured)
    with caplog.at_level(logging.ERROR):
        sweep_customer_emails()
    assert reason in caplog.text
    assert "customer e-mails wait" in caplog.text
    row = _row(sessions, email_id)
    assert (row.state, row.failures) == (EmailState.PENDING, 0)
    assert row.next_try_at > row.created_at


def test_messages_are_recorded_for_the_customers_of_suppliers_that_send_them_once_each(
    supplier: SupplierClient, worker_resources: WorkerResources
) -> None:
    others = [SupplierClient.create(supplier.app, supplier.Session) for _ in range(2)]
    accounts = [
        ImportedAccount.create(it, worker_resources, customers=[ANNE, SILENT]) for it in (supplier, *others)
    ]
    with supplier.Session.begin() as session:
        for it in others:
            set_customer_emails(session, it.code, on=True)
        _record(session, accounts[:2])
    assert [len(_emails_of(account)) for account in accounts] == [0, 1, 0]


@pytest.mark.parametrize(("failures", "pause"), [(0, 60), (1, 120), (5, 1_920), (6, 3_600), (9, 3_600)])
def test_the_pause_after_a_failure_doubles_up_to_an_hour(
    create: Callable[..., list[int]],
    celery: MigrationCelery,
    mailbox: Mailbox,
    sessions: sessionmaker[Session],
    *,
    failures: int,
    pause: int,
) -> None:
    (email_id,) = create(ANNE)
    with sessions.begin() as session:
        name_message(session, CustomerEmail, email_id, SENDER)
        this = update(CustomerEmail).where(CustomerEmail.id == email_id)
        session.execute(this.values(failures=failures))
    mailbox.answer = "451 try later"
    with sessions.begin() as session:
        begun = session.scalar(select(func.clock_timestamp()))
        assert deliver_email(session, email_id, mail_server(celery.settings)) is True
        ended = session.scalar(select(func.clock_timestamp()))
    row = _row(sessions, email_id)
    assert begun is not None
    assert ended is not None
    assert begun <= row.next_try_at - timedelta(seconds=pause) <= ended
    assert row.failures == failures + 1


def _seconds_left(session: Session) -> dict[int, int]:
    """Return the seconds from the beginning of this transaction until each message is tried again."""
    left = func.extract("epoch", CustomerEmail.next_try_at - func.now())
    return {it.id: round(it.left) for it in session.execute(select(CustomerEmail.id, left.label("left")))}


def test_the_oldest_messages_that_are_due_are_taken_and_those_that_a_worker_has_are_not(
    create: Callable[..., list[int]], sessions: sessionmaker[Session]
) -> None:
    ids = create(*(ANNE | {"given_name": name} for name in "ABCDE"))
    with sessions.begin() as session:
        for email_id, seconds in zip(ids, (10, 50, 30, 40, -20), strict=True):
            this = update(CustomerEmail).where(CustomerEmail.id == email_id)
            session.execute(this.values(next_try_at=func.now() - timedelta(seconds=seconds)))
    with sessions() as worker, sessions() as session:
        worker.execute(select(CustomerEmail.id).where(CustomerEmail.id == ids[1]).with_for_update())
        session.execute(text("SET LOCAL lock_timeout = '5s'"))
        assert set(take_due(session, CustomerEmail, 2)) == {ids[2], ids[3]}
        left = _seconds_left(session)
        assert (left[ids[2]], left[ids[3]]) == (120, 120)
        assert hold_due(session, CustomerEmail) == 1
        assert _seconds_left(session) == left | {ids[0]: 30}
