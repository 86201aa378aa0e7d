"""`migration-client certificate verify`."""

from typing import Any, BinaryIO

import click

from migration_payloads.files.certificates import CertificateError, salted, verify_certificate
from migration_payloads.files.output import say
from migration_payloads.normal_form import digest_line
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.output import json_option, show_json

_INSTALL = "pip install 'migration-service-client[certificate]'"


@click.command()
@click.argument("file", type=click.File("rb"))
@click.option("--key", metavar="HEX", help="The public key of the service, which you have from elsewhere.")
@click.option(
    "--sent",
    type=click.File("rb"),
    metavar="LINE",
    help="Of the proof of an account: a file with the account as it was sent, to compare.",
)
@json_option
def verify(*, file: BinaryIO, key: str | None, sent: BinaryIO | None, as_json: bool) -> None:
    """Verify a certificate, or the proof of one account, without the service.

    Every byte counts: if one was changed, dropped, added or moved, the command names the part. Without --key
    it verifies with the key in FILE: then compare the key that it prints with that of the service.

    The exit status is 0 if FILE holds, 1 if it does not, and 2 if the command could not run.
    """
    try:
        head, found, account = verify_certificate(file, _is_signed)
        if key is not None and key.strip().lower() != found.hex():
            raise CertificateError(f"signature: it was made with another key, {found.hex()}.")
        if sent is not None:
            _compare(account, sent.read())
    except CertificateError as error:
        say(str(error), err=True)
        click.get_current_context().exit(1)
    if as_json:
        show_json({**head, "public_key": found.hex(), "account": account})
        return
    scope = f"batch {head['scope']}" if head["scope"] else "the whole book"
    say(f"The certificate {head['certificate_id']} holds: {head['import_supplier']}, {scope}.")
    accounts = "1 account" if head["accounts"] == 1 else f"{head['accounts']:,} accounts"
    say(f"Made {head['made_at']}, with {accounts}.")
    if account:
        say(f"It has account {account['external_account_number']} as {account['service_account_number']}.")
        same = account["sent"] == account["created"]
        say("What was created is what was sent." if same else "What was created is not what was sent.")
    say(f"Signed with the key {found.hex()}{'' if key else ': compare it with that of the service'}.")


def _compare(account: dict[str, Any] | None, line: bytes) -> None:
    """Raise CertificateError unless an account was sent like this."""
    if account is None:
        raise click.UsageError("--sent needs the proof of one account: see `certificate account`.")
    if account["sent"] != salted(bytes.fromhex(account["salt"]), digest_line(line)):
        raise CertificateError("account: it was not sent like this.")


def _is_signed(key: bytes, signature: bytes, text: bytes) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - an extra
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey  # noqa: PLC0415
    except ImportError:
        raise CannotRunError(f"This command needs cryptography. Install it: {_INSTALL}") from None
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text)
    except InvalidSignature:
        return False
    return True
