"""The rules for texts that are printed, dialled or addressed as they are: names, addresses, contacts."""

import re
from collections.abc import Iterator

from migration_payloads.rules.account import CheckedAccount, Item, Path
from migration_payloads.rules.rule import Fault, Severity, rule
from migration_payloads.schemas.identifiers import READ_AS_SEVERAL, find_hidden, find_invisible, mend_encoding

_OF_CUSTOMER = ("given_name", "family_name")
_OF_CONTACT = ("email", "mobile", "landline")
_OF_TRANSACTION = ("reference", "display_note", "note")
_LINES = tuple(f"address{number}" for number in range(1, 5))
_BILLING = tuple(f"billing_{line}" for line in _LINES)
_SUPPLY = tuple(f"supply_{line}" for line in _LINES)
# A letter of which nothing is left but a question mark.
_LOST_LETTER = re.compile(r"(?<=[^\W\d_])\?(?=[^\W\d_])")
_LOST = "A letter of this is lost: read the file in its own encoding."


@rule(Severity.WARNING, remedy="Remove the character. Send an address as several lines, and a name on one.")
def invisible_characters(account: CheckedAccount) -> Iterator[Fault]:
    """A name, an address, an e-mail address or a telephone number has a character that cannot be seen.

    In an e-mail address or a telephone number, spaces other than the usual one count.
    """
    for item, path, fields in () if account.is_plain else _texts(account):
        for field in fields:
            text = item.get(field, "")
            if text.isascii() and text.isprintable():
                continue
            # What is in the wrong encoding is no character to remove.
            if (character := find_invisible(text)) and mend_encoding(text) == text:
                yield (*path, field), f"This has {character}, which cannot be seen: remove it."
    for i, customer in enumerate(account.customers):
        for field in () if account.is_plain else _OF_CONTACT:
            if character := find_hidden(customer.get(field, "")):
                yield (
                    ("customers", i, field),
                    f"This has {character}, which cannot be seen or told from a usual space: remove it.",
                )


@rule(
    Severity.WARNING, remedy="Read the file in the encoding in which it was written, which is probably UTF-8."
)
def wrong_encoding(account: CheckedAccount) -> Iterator[Fault]:
    """A name, an address or another text was read in the wrong encoding: letters are changed or lost.

    An e-mail address, the texts of a transaction and the path of a document count.
    """
    if account.is_plain:
        return
    for item, path, fields in _texts(account):
        for field in fields:
            text = item.get(field, "")
            if fault := find_wrong_encoding(text):
                yield (*path, field), fault
            elif "?" in text and _LOST_LETTER.search(text):
                yield (*path, field), _LOST
    for path, item, field in _other_texts(account):
        if fault := find_wrong_encoding(item.get(field, "")):
            yield (*path, field), fault


def _texts(account: CheckedAccount) -> Iterator[tuple[Item, Path, tuple[str, ...]]]:
    yield account.data, (), _BILLING
    for i, customer in enumerate(account.customers):
        yield customer, ("customers", i), _OF_CUSTOMER
    for i, address in enumerate(account.supply_addresses):
        yield address, ("supply_addresses", i), _SUPPLY


def _other_texts(account: CheckedAccount) -> Iterator[tuple[Path, Item, str]]:
    """Yield the places of texts in which a question mark may be meant."""
    for i, customer in enumerate(account.customers):
        yield ("customers", i), customer, "email"
        for j, detail in enumerate(customer.get("user_details", ())):
            yield ("customers", i, "user_details", j), detail, "value"
    for path, meter_point in account.meter_points:
        yield path, meter_point, "location_description"
    for path, transaction in account.transactions:
        for field in _OF_TRANSACTION:
            if field in transaction:
                yield path, transaction, field
    for path, statement in account.statements:
        yield path, statement, "statement_path"
    for path, agreement, _ in account.agreements:
        if params := agreement.get("params"):
            yield (*path, "params"), params, "historical_contract_pdf_path"


def find_wrong_encoding(text: str) -> str | None:
    """Return why a text was read in the wrong encoding, or None. It is personal, so no detail repeats it."""
    if text.isascii():
        return None
    if mend_encoding(text) != text:
        return READ_AS_SEVERAL
    return _LOST if "\ufffd" in text else None
