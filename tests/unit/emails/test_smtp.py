"""Sending through real SMTP servers (aiosmtpd), also faulty ones."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from migration_service.emails import messages, smtp
from migration_service_local.servers.ports import random_free_port


class Mailbox:
    """A handler that keeps messages. `answers` replaces its answers by recipient, or to the text."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.logins: list[str] = []
        self.answers: dict[str, str] = {}

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if answer := self.answers.get(address):
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        if answer := self.answers.get("DATA"):
            return answer
        self.envelopes.append(envelope)
        return "250 taken"

    def log_in(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: LoginPassword
    ) -> AuthResult:
        """Return an authenticator that adds users who log in correctly to `logins`."""
        if data != LoginPassword(b"service@energy", b"p@ss/word"):
            return AuthResult(success=False, handled=False)
        self.logins.append(data.login.decode())
        return AuthResult(success=True)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def start_smtp(mailbox: Mailbox) -> Iterator[Callable[..., str]]:
    """Start a mail server of the mailbox, with options of aiosmtpd. Return its host and port."""
    controllers: list[Controller] = []

    def start(**options: Any) -> str:
        port = random_free_port()
        controller = Controller(mailbox, hostname="127.0.0.1", port=port, **options)
        controller.start()
        controllers.append(controller)
        return f"127.0.0.1:{port}"

    yield start
    for controller in controllers:
        controller.stop()


@pytest.fixture
def server_tls(tmp_path: Path) -> ssl.SSLContext:
    """A server's certificate for 127.0.0.1. Its authority is in tmp_path / "ca.pem"."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def welcome() -> EmailMessage:
    sender, recipient = "Zoë's Energy <welcome@energy.example>", "jan@post.example"
    envelope = messages.Envelope("<1@energy.example>", sender, recipient, datetime(2026, 3, 1, tzinfo=UTC))
    return messages.compose_account_created(envelope, "A-12345678")


LOGIN = "service%40energy:p%40ss%2Fword"


def test_the_server_receives_the_message(start_smtp: Callable[..., str], mailbox: Mailbox) -> None:
    smtp.send(welcome(), smtp.SmtpSettings.from_url(f"smtp://{start_smtp()}"))
    [envelope] = mailbox.envelopes
    assert envelope.mail_from == "welcome@energy.example"
    assert envelope.rcpt_tos == ["jan@post.example"]
    assert isinstance(envelope.content, bytes)
    assert b"Message-ID: <1@energy.example>" in envelope.content


@pytest.mark.parametrize(
    ("where", "answer", "expected"),
    [
        ("jan@post.example", "550 5.1.1 <jan@post.example> is unknown", smtp.EmailRefusedError),
        ("jan@post.example", "452 4.2.2 mailbox full", smtp.EmailDelayedError),
        ("jan@post.example", "530 5.7.0 log in first", smtp.EmailDelayedError),
        ("DATA", "554 5.7.1 looks like spam", smtp.EmailRefusedError),
        ("DATA", "451 4.3.0 try later", smtp.EmailDelayedError),
    ],
)
def test_permanent_refusals_are_distinguished_from_temporary_ones(
    start_smtp: Callable[..., str], mailbox: Mailbox, where: str, answer: str, expected: type[smtp.EmailError]
) -> None:
    mailbox.answers[where] = answer
    with pytest.raises(expected, match=answer[:3]) as caught:
        smtp.send(welcome(), smtp.SmtpSettings.from_url(f"smtp://{start_smtp()}"))
    assert "jan@post.example" not in str(caught.value)


@pytest.mark.parametrize("url, port", [("smtp://a", 25), ("smtp://a?starttls=1", 587), ("smtps://a", 465)])
def test_each_way_has_its_port(url: str, port: int) -> None:
    assert smtp.SmtpSettings.from_url(url).port == port


@pytest.mark.parametrize("url", ["smtp://{}@{}?starttls=1", "smtps://{}@{}"])
def test_a_login_follows_starttls_or_implicit_tls(
    start_smtp: Callable[..., str], mailbox: Mailbox, server_tls: ssl.SSLContext, trusted: None, url: str
) -> None:
    tls: dict[str, Any] = {"ssl_context": server_tls, "auth_require_tls": False}
    if "starttls" in url:
        tls = {"tls_context": server_tls, "require_starttls": True, "auth_required": True}
    address = start_smtp(authenticator=mailbox.log_in, **tls)
    smtp.send(welcome(), smtp.SmtpSettings.from_url(url.format(LOGIN, address)))
    assert mailbox.logins == ["service@energy"]


def test_a_wrong_password_delays_the_message_and_is_not_shown(
    start_smtp: Callable[..., str], mailbox: Mailbox, server_tls: ssl.SSLContext, trusted: None
) -> None:
    address = start_smtp(tls_context=server_tls, authenticator=mailbox.log_in, auth_required=True)
    with pytest.raises(smtp.EmailDelayedError, match="log in") as caught:
        smtp.send(welcome(), smtp.SmtpSettings.from_url(f"smtp://service:hush@{address}?starttls=1"))
    assert "hush" not in str(caught.value)
    assert mailbox.envelopes == []


def test_a_certificate_of_an_unknown_authority_delays_the_message(
    start_smtp: Callable[..., str], mailbox: Mailbox, server_tls: ssl.SSLContext
) -> None:
    with pytest.raises(smtp.EmailDelayedError, match="TLS"):
        smtp.send(
            welcome(), smtp.SmtpSettings.from_url(f"smtp://{start_smtp(tls_context=server_tls)}?starttls=1")
        )
    assert mailbox.envelopes == []


def test_nothing_is_sent_if_starttls_is_required_and_not_offered(
    start_smtp: Callable[..., str], mailbox: Mailbox
) -> None:
    with pytest.raises(smtp.EmailDelayedError, match="STARTTLS"):
        smtp.send(welcome(), smtp.SmtpSettings.from_url(f"smtp://{start_smtp()}?starttls=1"))
    assert mailbox.envelopes == []


def test_an_unavailable_server_delays_the_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(smtp.EmailDelayedError, match="reached"):
        smtp.send(welcome(), smtp.SmtpSettings.from_url(f"smtp://127.0.0.1:{port}"))


def test_a_server_that_does_not_answer_delays_the_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(smtp.EmailDelayedError):
        smtp.send(
            welcome(),
            smtp.SmtpSettings(host="127.0.0.1", port=listener.getsockname()[1], timeout_seconds=0.2),
        )


#: What a server says in a conversation before it takes the message.
_BEFORE = [b"220 hello\r\n", b"250 hello\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go\r\n"]


@pytest.mark.parametrize(
    "lines", [[b"554 no service here\r\n"], [b"421 busy\r\n"], [b"nonsense\r\n"], [b""], _BEFORE]
)
def test_a_message_that_no_server_has_accepted_is_delayed(lines: list[bytes]) -> None:
    with pytest.raises(smtp.EmailDelayedError):
        _send_to_script(lines)


def test_an_accepted_message_counts_as_sent_even_if_quit_fails() -> None:
    _send_to_script([*_BEFORE, b"250 taken\r\n"])


def _send_to_script(lines: list[bytes]) -> None:
    """Send to a server that answers with these lines in turn, and then closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_say_lines, args=(listener, lines))
        thread.start()
        try:
            smtp.send(
                welcome(),
                smtp.SmtpSettings(host="127.0.0.1", port=listener.getsockname()[1], timeout_seconds=5),
            )
        finally:
            thread.join()


def _say_lines(listener: socket.socket, lines: list[bytes]) -> None:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as told:
        for line in lines[:-1]:
            connection.sendall(line)
            received = told.readline()
            while line.startswith(b"354") and received.strip() != b".":
                assert received, "the client closed the connection in the middle of its message"
                received = told.readline()
        connection.sendall(lines[-1])
