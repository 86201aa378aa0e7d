"""Sending a message through a mail server, and telling permanent failures from temporary ones.

Until the server has acknowledged the end of the message, it is unknown whether it was accepted. It then
counts as not sent, and a retry uses the same Message-ID.
"""

import contextlib
import io
import math
import smtplib
import socket
import ssl
import time
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import cache
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from migration_service.config import SettingsError
from migration_service.outgoing.deadlines import TimedReader

#: Responses about the access of this service to the server instead of the message. An operator can fix these.
_ACCESS_CODES = {530, 534, 535, 538}


class EmailError(Exception):
    """A message was not sent. The text gives the reason, without the customer's address."""


class EmailRefusedError(EmailError):
    """The server will never accept this message for this address."""


class EmailDelayedError(EmailError):
    """The server may accept the message later: it is unavailable or busy, or the settings are wrong."""


class MailServerUnavailableError(EmailDelayedError):
    """The server accepts no message at all: it is unavailable or busy, or refuses the login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """The address and login of the mail server. Its repr has neither the user nor the password."""

    host: str
    port: int
    #: TLS from the first byte (smtps).
    implicit_tls: bool = False
    #: TLS before anything else is sent. Without it nothing is sent.
    starttls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    #: Seconds for the whole conversation about a message.
    timeout_seconds: float = 20.0

    @classmethod
    def from_url(cls, url: str) -> Self:
        """Return the settings from smtp://user:password@host:587?starttls=1, smtps://host or smtp://host.

        User and password are percent-encoded. The default port is 465 for smtps, 587 with starttls, and 25
        otherwise. Raise SettingsError, which does not show the URL, if it is invalid.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        except ValueError as error:
            raise _wrong("cannot be read") from error
        if parts.scheme not in {"smtp", "smtps"} or not parts.hostname or parts.path.strip("/"):
            raise _wrong("must have the form smtp://user:password@host:587?starttls=1 or smtps://host:465")
        implicit_tls = parts.scheme == "smtps"
        starttls = options.pop("starttls", "0") == "1"
        if options:
            raise _wrong("has an unknown option. The only option is starttls=1")
        if implicit_tls and starttls:
            raise _wrong("cannot have both smtps and starttls=1")
        if (parts.username is None) != (parts.password is None):
            raise _wrong("needs both a user and a password, or neither")
        return cls(
            host=parts.hostname,
            port=port or (465 if implicit_tls else 587 if starttls else 25),
            implicit_tls=implicit_tls,
            starttls=starttls,
            user=None if parts.username is None else unquote(parts.username),
            password=None if parts.password is None else unquote(parts.password),
        )


def send(message: EmailMessage, settings: SmtpSettings) -> None:
    """Send the message, and return when the server has accepted it. Certificates are verified.

    Raise EmailRefusedError if the failure is permanent, and EmailDelayedError if it is temporary.
    """
    sender = message["From"].addresses[0].addr_spec
    recipient = message["To"].addresses[0].addr_spec
    server: smtplib.SMTP | None = None
    try:
        server = _connect(settings)
        server.send_message(message, sender, [recipient])
    except (smtplib.SMTPException, OSError) as error:
        raise _explain(error, recipient) from None
    finally:
        if server is not None:
            _leave(server)


class _Plain(smtplib.SMTP):
    """A conversation that ends at a deadline, however slowly the server answers."""

    def __init__(self, settings: SmtpSettings, **options: Any) -> None:
        self._ends_at = time.monotonic() + settings.timeout_seconds
        super().__init__(
            settings.host, settings.port, _own_name(), timeout=settings.timeout_seconds, **options
        )

    def getreply(self) -> tuple[int, bytes]:
        """Return the next response. Raise SMTPServerDisconnected after the deadline."""
        if self.file is None and self.sock is not None:
            self.sock.settimeout(max(0.001, self._ends_at - time.monotonic()))
            raw = self.sock.makefile("rb", buffering=0)
            self.file = io.BufferedReader(TimedReader(raw, self.sock, math.inf))
        return super().getreply()


class _Encrypted(_Plain, smtplib.SMTP_SSL):
    """The same with TLS from the first byte."""


@cache
def _own_name() -> str:
    """Return the name of this machine for the greeting, which a name server may be slow to tell."""
    return socket.getfqdn()


def _connect(settings: SmtpSettings) -> smtplib.SMTP:
    context = ssl.create_default_context()
    server = _Encrypted(settings, context=context) if settings.implicit_tls else _Plain(settings)
    try:
        if settings.starttls:
            try:
                server.starttls(context=context)
            except smtplib.SMTPResponseException as error:
                # This response is about TLS, not about a message.
                raise MailServerUnavailableError("The mail server refuses STARTTLS.") from error
            except smtplib.SMTPNotSupportedError as error:
                raise MailServerUnavailableError("The mail server offers no STARTTLS.") from error
        if settings.user is not None and settings.password is not None:
            _log_in(server, settings.user, settings.password)
    except BaseException:
        _leave(server)
        raise
    return server


def _log_in(server: smtplib.SMTP, user: str, password: str) -> None:
    try:
        server.login(user, password)
    except smtplib.SMTPServerDisconnected:
        raise
    except smtplib.SMTPException as error:
        raise MailServerUnavailableError(
            f"The mail server does not let this service log in ({type(error).__name__})."
        ) from None


def _leave(server: smtplib.SMTP) -> None:
    # The server has already accepted the message or not, whatever its response to this.
    with contextlib.suppress(smtplib.SMTPException, OSError):
        server.quit()
    server.close()


def _explain(error: smtplib.SMTPException | OSError, recipient: str) -> EmailError:
    code: int
    text: bytes | str
    match error:
        case smtplib.SMTPRecipientsRefused():
            code, text = next(iter(error.recipients.values()))
        case smtplib.SMTPConnectError() | smtplib.SMTPHeloError():
            return MailServerUnavailableError(f"The mail server accepts no messages now ({error.smtp_code}).")
        case smtplib.SMTPResponseException():
            code, text = error.smtp_code, error.smtp_error
        case ssl.SSLError():
            return MailServerUnavailableError(f"No TLS connection to the mail server: {error.reason}.")
        case _:
            return MailServerUnavailableError(f"The mail server cannot be reached ({type(error).__name__}).")
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    answer = f"The mail server answered {code}: {words.replace(recipient, 'the address')[:200]}"
    if code in _ACCESS_CODES:
        return MailServerUnavailableError(answer)
    return EmailRefusedError(answer) if code >= 500 else EmailDelayedError(answer)


def _wrong(what: str) -> SettingsError:
    return SettingsError(f"MIGRATION_SERVICE_SMTP_URL {what}.")
