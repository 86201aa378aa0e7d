"""Composing messages to customers and to the people who run a migration.

This module neither sends messages nor reads from the database.
"""

from dataclasses import dataclass
from datetime import datetime
from email.errors import HeaderParseError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import parseaddr

import idna
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from migration_service.config import SettingsError
from migration_service.emails.smtp import EmailRefusedError

_MAX_NAME = 200

_templates = Environment(
    loader=PackageLoader("migration_service.emails"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What every message has. The same values give the same headers, so that a retry is recognised."""

    message_id: str
    #: The setting, `Name <address>`.
    sender: str
    #: A bare address.
    recipient: str
    written_at: datetime


def sender_domain(sender: str) -> str:
    """Return the domain of the sender, for the Message-ID. Raise SettingsError if the sender is invalid."""
    return _sender_address(sender).domain


def compose_account_created(envelope: Envelope, service_account_number: str) -> EmailMessage:
    """Return the welcome message for a customer whose account has been created, in plain text and HTML.

    Raise EmailRefusedError if the recipient's address is invalid, and SettingsError if the sender's is.
    """
    subject = f"Welcome: your new account number is {service_account_number}"
    facts = {
        "subject": subject,
        "service_account_number": service_account_number,
        "sender_name": _sender_address(envelope.sender).display_name or "Customer service",
    }
    message = _begin(envelope, subject)
    message.set_content(_templates.get_template("account_created.txt").render(facts))
    message.add_alternative(_templates.get_template("account_created.html").render(facts), subtype="html")
    return message


def compose_alert(envelope: Envelope, subject: str, body: str) -> EmailMessage:
    """Return a message about an event that needs a person who runs a migration, in plain text.

    The errors are those of `compose_account_created`.
    """
    message = _begin(envelope, _one_line(subject))
    message.set_content(body)
    return message


def _begin(envelope: Envelope, subject: str) -> EmailMessage:
    message = EmailMessage(policy=SMTP)
    message["From"] = _sender_address(envelope.sender)
    message["To"] = _recipient_address(envelope.recipient)
    message["Date"] = envelope.written_at
    message["Message-ID"] = envelope.message_id
    # Prevents out-of-office replies (RFC 3834).
    message["Auto-Submitted"] = "auto-generated"
    message["Subject"] = subject
    return message


def _sender_address(sender: str) -> Address:
    display_name, address = parseaddr(sender)
    try:
        return _address(address, display_name)
    except ValueError as error:
        raise SettingsError("MIGRATION_SERVICE_EMAIL_FROM must have the form Name <address>.") from error


def _recipient_address(recipient: str) -> Address:
    try:
        return _address(recipient, "")
    except ValueError as error:
        raise EmailRefusedError("The address is not a valid e-mail address.") from error


def _address(address: str, display_name: str) -> Address:
    """Return the address with the encoded domain for mail servers (`xn--...`). Raise ValueError if invalid.

    The part before the @ must be ASCII, because few mail servers accept anything else.
    """
    local_part, _, domain = address.rpartition("@")
    if not local_part.isascii() or not address.isprintable() or " " in address:
        raise ValueError("not an address")
    try:
        ascii_domain = domain.lower() if domain.isascii() else idna.encode(domain, uts46=True).decode("ascii")
        return Address(display_name=_one_line(display_name), addr_spec=f"{local_part}@{ascii_domain}")
    except (idna.IDNAError, HeaderParseError, IndexError) as error:
        raise ValueError("not an address") from error


def _one_line(text: str) -> str:
    """Return a shortened name without line breaks, which would start a new header."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:_MAX_NAME]
