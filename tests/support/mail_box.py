"""A mail server's mailbox, for the tests of messages."""

from collections.abc import Callable
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default

from aiosmtpd.smtp import SMTP, Envelope
from aiosmtpd.smtp import Session as SmtpSession

#: The sender of the messages.
SENDER = "Sample Energy <welcome@sample-energy.example>"


class Mailbox:
    """A handler of aiosmtpd that keeps messages. `answer` replaces its answer.

    `before_answer` is called when a message has arrived and its sender still waits for the answer.
    """

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.answer = "250 taken"
        self.before_answer: Callable[[], None] = lambda: None

    async def handle_DATA(self, server: SMTP, session: SmtpSession, envelope: Envelope) -> str:
        if self.answer.startswith("250"):
            self.recipients += envelope.rcpt_tos
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=default)
            assert isinstance(message, EmailMessage)
            self.messages.append(message)
        self.before_answer()
        return self.answer

    @property
    def message_ids(self) -> list[str]:
        return [str(message["Message-ID"]) for message in self.messages]
