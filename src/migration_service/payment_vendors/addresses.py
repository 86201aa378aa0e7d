"""Checks of the two parts of a called URL: the vendor's URL, and the reference in its path."""

import ipaddress
from urllib.parse import urlsplit

from migration_service.errors import PaymentInstructionRejectedError

#: The longest reference that is sent to a vendor, in characters.
MAX_REFERENCE_LENGTH = 255


def check_reference(reference: str) -> None:
    """Raise PaymentInstructionRejectedError if this is no valid reference, or would change the URL.

    Everything else is percent-encoded. That is impossible for `.` and `..`, which URL normalisation removes.
    """
    if not reference.strip():
        raise PaymentInstructionRejectedError("The reference is empty.")
    if len(reference) > MAX_REFERENCE_LENGTH:
        raise PaymentInstructionRejectedError(
            f"The reference is longer than {MAX_REFERENCE_LENGTH} characters."
        )
    if reference in {".", ".."} or not reference.isprintable():
        raise PaymentInstructionRejectedError(
            "The reference contains characters that are not allowed in a payment vendor's reference."
        )


def check_vendor_url(url: str, *, with_secret: bool) -> None:
    """Raise ValueError, with a message for the operator, if this is no valid URL of a vendor.

    A secret is only sent over TLS, except to this machine.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError("The URL of the payment vendor cannot be read.") from error
    if parts.scheme not in {"http", "https"} or not host or not url.isprintable() or " " in url:
        raise ValueError(
            "The URL of the payment vendor must have the form https://host or https://host/path."
        )
    if parts.username is not None or parts.password is not None:
        raise ValueError("The URL of the payment vendor may not have a user or a password. Use --secret-env.")
    if "?" in url or "#" in url:
        raise ValueError("The URL of the payment vendor may not have a query or a fragment.")
    if with_secret and parts.scheme == "http" and not _is_this_machine(host):
        raise ValueError("A payment vendor with a secret must have an https URL, or run on this machine.")


def _is_this_machine(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
