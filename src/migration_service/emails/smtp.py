"""Sending one message through a mail server, and telling lasting failures from temporary ones.

Before the server has answered the end of the message nobody can know whether it took it: the message counts
as not sent, and a repeat carries the same Message-ID.
"""

import contextlib
import smtplib
import ssl
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Self
from urllib.parse import parse_qsl, unquote, urlsplit

from migration_service.config import SettingsError

#: Answers that concern this service's way to the server rather than the message: an operator can mend them.
_ACCESS_CODES = {530, 534, 535, 538}


class EmailError(Exception):
    """A message was not sent. The text says why, without the customer's address."""


class EmailRefusedError(EmailError):
    """The server will never accept this message for this address."""


class EmailDelayedError(EmailError):
    """The server may accept the message later: it is unavailable or busy, or the settings are wrong."""


class MailServerAwayError(EmailDelayedError):
    """The server accepts no message at all: it is unavailable or busy, or refuses the login."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmtpSettings:
    """How to reach the mail server. Neither the password nor the user is in its repr."""

    host: str
    port: int
    #: TLS from the first byte (smtps).
    implicit_tls: bool = False
    #: TLS before anything else is said; without it nothing is sent.
    starttls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    #: For connecting, and for each answer of the server.
    timeout_seconds: float = 10.0

    @classmethod
    def from_url(cls, url: str) -> Self:
        """From smtp://user:password@host:587?starttls=1, smtps://host or smtp://host.

        User and password are percent-encoded. The port is 465 for smtps, 587 with starttls, otherwise 25.
        Raises SettingsError, without the URL in it.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            options = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
        except ValueError as error:
            raise _wrong("cannot be read") from error
        if parts.scheme not in {"smtp", "smtps"} or not parts.hostname or parts.path.strip("/"):
            raise _wrong("must look like smtp://user:password@host:587?starttls=1 or smtps://host:465")
        implicit_tls = parts.scheme == "smtps"
        starttls = options.pop("starttls", "0") == "1"
        if options:
            raise _wrong("knows no option but starttls=1")
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
    """Hand the message to the mail server; return when the server has taken it.

    Raises EmailRefusedError or EmailDelayedError. Certificates are verified.
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


def _connect(settings: SmtpSettings) -> smtplib.SMTP:
    context = ssl.create_default_context()
    if settings.implicit_tls:
        server: smtplib.SMTP = smtplib.SMTP_SSL(
            settings.host, settings.port, timeout=settings.timeout_seconds, context=context
        )
    else:
        server = smtplib.SMTP(settings.host, settings.port, timeout=settings.timeout_seconds)
    try:
        if settings.starttls:
            try:
                server.starttls(context=context)
            except smtplib.SMTPResponseException as error:
                # What it says is about TLS, not about a message.
                raise MailServerAwayError("The mail server refuses STARTTLS.") from error
            except smtplib.SMTPNotSupportedError as error:
                raise MailServerAwayError("The mail server offers no STARTTLS.") from error
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
        raise MailServerAwayError(
            f"The mail server does not let this service log in ({type(error).__name__})."
        ) from None


def _leave(server: smtplib.SMTP) -> None:
    # Whatever becomes of this, the server has or has not taken the message by now.
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
            return MailServerAwayError(f"The mail server takes no messages now ({error.smtp_code}).")
        case smtplib.SMTPResponseException():
            code, text = error.smtp_code, error.smtp_error
        case ssl.SSLError():
            return MailServerAwayError(f"No TLS connection to the mail server: {error.reason}.")
        case _:
            return MailServerAwayError(f"The mail server cannot be reached ({type(error).__name__}).")
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    answer = f"The mail server answered {code}: {words.replace(recipient, 'the address')[:200]}"
    if code in _ACCESS_CODES:
        return MailServerAwayError(answer)
    return EmailRefusedError(answer) if code >= 500 else EmailDelayedError(answer)


def _wrong(what: str) -> SettingsError:
    return SettingsError(f"MIGRATION_SERVICE_SMTP_URL {what}.")
