"""The welcome message: its content, which no name or address can change. Also those of paused batches."""

from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import SMTP

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from migration_service.config import SettingsError
from migration_service.emails.messages import Envelope, compose_account_created
from migration_service.emails.smtp import EmailRefusedError
from migration_service.services.alerts.messages import describe_paused
from migration_service.states import WaveState
from support.factories import Customer
from support.rows import add_chunk
from unit.services.waves.wave_rows import batch_of, make_wave

SENDER = "Example Energy <welcome@energy.example>"
WRITTEN_AT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)


def compose(recipient: str = "jan@post.example", sender: str = SENDER) -> EmailMessage:
    envelope = Envelope("<1@energy.example>", sender, recipient, WRITTEN_AT)
    return compose_account_created(envelope, "A-12345678")


def received(message: EmailMessage) -> EmailMessage:
    """Return the message as the receiver reads it."""
    parsed = message_from_bytes(message.as_bytes(), policy=SMTP)
    assert isinstance(parsed, EmailMessage)
    assert not parsed.defects
    return parsed


def text_of(message: EmailMessage, kind: str) -> str:
    body = message.get_body((kind,))
    assert body is not None
    content: str = body.get_content()
    return content


def test_the_account_number_is_in_the_subject_the_text_and_the_html() -> None:
    message = received(compose())
    assert "A-12345678" in message["Subject"]
    assert message.get_content_type() == "multipart/alternative"
    for kind in ("plain", "html"):
        assert "Dear customer," in text_of(message, kind)
        assert "A-12345678" in text_of(message, kind)
        assert "Example Energy" in text_of(message, kind)


def test_the_message_has_the_given_headers() -> None:
    message = received(compose())
    assert message["From"] == SENDER
    assert message["To"] == "jan@post.example"
    assert message["Message-ID"] == "<1@energy.example>"
    assert message["Date"].datetime == WRITTEN_AT
    assert message["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(
    ("recipient", "written"),
    [
        ("jan@bücher.example", "jan@xn--bcher-kva.example"),
        ("jan@STRASSE.example", "jan@strasse.example"),
        ("Jan.de+energy@post.example", "Jan.de+energy@post.example"),
    ],
)
def test_the_domain_is_encoded_for_mail_servers(recipient: str, written: str) -> None:
    assert compose(recipient=recipient)["To"].addresses[0].addr_spec == written


@pytest.mark.parametrize(
    "recipient",
    [
        "",
        "jan",
        "@post.example",
        "jan@",
        "jan@post.example\r\nBcc: x@post.example",
        "jan@post.example, piet@post.example",
        "jan@post.example>",
        "jan de vries@post.example",
        "jan@-bücher-.example",
        "jörg@post.example",
    ],
)
def test_an_address_that_cannot_be_written_to_is_refused(recipient: str) -> None:
    with pytest.raises(EmailRefusedError):
        compose(recipient=recipient)


@given(recipient=st.text(max_size=60) | st.text(alphabet='ab@.<>,;:"\\()[] \r\n', max_size=20))
def test_any_address_is_one_recipient_or_is_refused(recipient: str) -> None:
    try:
        message = compose(recipient=recipient)
    except EmailRefusedError:
        return
    assert len(message["To"].addresses) == 1
    assert message["Bcc"] is None


@pytest.mark.parametrize("sender", ["", "Example Energy", "welcome@"])
def test_a_sender_that_is_not_an_address_is_a_wrong_setting(sender: str) -> None:
    with pytest.raises(SettingsError, match="MIGRATION_SERVICE_EMAIL_FROM"):
        compose(sender=sender)


def test_a_paused_batch_has_its_id_its_wave_and_its_figures_and_no_name_of_a_clients(
    session: Session, customer: Customer
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PAUSED)
    batch = batch_of(session, wave, lines=1_200, name="Pilot", file_name="my-file")
    add_chunk(session, batch, 1, counts={"IMPORTED": 600, "FAILED": 102, "PENDING": 498})
    text = describe_paused(session, batch, "MINE", wave)
    assert text.subject == f"MINE: batch {batch.id} is paused after too many errors"
    assert f"It is wave 1 of plan {plan.id}. 702 of 1,200 lines are processed, and 102" in text.said[0]
    assert "wave" not in describe_paused(session, batch, "MINE", None).said[0]
    assert f"migration-client batches show {batch.id}" in text.write("")
    assert not any(name in text.write("") for name in ("Pilot", "my-file"))
    for console in ("https://m.example/console", "https://m.example/console/"):
        assert f"\nhttps://m.example/console/batches/{batch.id}/\n" in text.write(console)
