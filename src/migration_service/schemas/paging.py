"""The query parameters of lists that are read in pages."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from uuid import UUID

from marshmallow import Schema, ValidationError, missing

from migration_payloads.schemas.base import Fields
from migration_payloads.schemas.coded import Coded
from migration_payloads.schemas.fields import Scope, WholeNumber
from migration_payloads.schemas.messages import Message

LARGEST_PAGE = 500
#: The largest id of a row.
_LARGEST_ID = 2**63 - 1
#: The bytes of a cursor by which one that was made up is recognized.
_CHECK_BYTES = 6


class PageSize(WholeNumber):
    """The parameter for the size of a page. `largest` is the largest one."""

    def __init__(self, *about: Any, largest: int = LARGEST_PAGE, **kwargs: Any) -> None:
        super().__init__(*about, parameter={"type": "integer", "minimum": 1, "maximum": largest}, **kwargs)
        self.largest = largest

    def _deserialize(self, value: Any, *args: Any, **kwargs: Any) -> int:
        size = super()._deserialize(value, *args, **kwargs)
        if not 1 <= size <= self.largest:
            detail = f"A page has 1 to {self.largest} entries, not {size}."
            raise ValidationError(Message(detail, "page_size_out_of_range"))
        return size


class Cursor(Scope):
    """The parameter for the entry after which a page starts. `read` reads its key, or raises ValueError."""

    def __init__(self, example: str, read: Callable[[str], Any] = UUID, **kwargs: Any) -> None:
        super().__init__("Where the page starts, taken from the Link header.", example, **kwargs)
        self.read = read

    def deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the key, after everything else was checked."""
        text = super().deserialize(value, *args, **kwargs)
        try:
            return text if text is missing else self.read(text)
        except ValueError:
            raise ValidationError(Message("This is not a cursor from a Link header.", "invalid")) from None


def page_arguments(things: str, read: Callable[[str], Any] = UUID, **filters: Coded) -> Schema:
    """Return the query string of a list of `things`: its filters, the size of a page and where it starts.

    `read` reads the key of an entry, or raises ValueError.
    """
    text = f"At most this many {things}, 1 to {LARGEST_PAGE}. The Link header leads to the next page."
    limit = PageSize(text, 50, load_default=50)
    cursor = Cursor("019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11", read, max_length=128)
    return Fields.from_dict({**filters, "limit": limit, "cursor": cursor})()


def list_arguments(things: str) -> Schema:
    """Return the query string of a list of `things` of one import supplier, or of all."""
    of_supplier = Scope(f"Only {things} of this import supplier.", "DEMO_SUPPLIER")
    return page_arguments(things, import_supplier=of_supplier)


def row_id(text: str) -> int:
    """Return the id of a row, or another whole number. Raise ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and int(text) <= _LARGEST_ID):
        raise ValueError
    return int(text)


def write_number_cursor(number: str) -> str:
    """Return the cursor after an account number. It stays valid when that account has left the list."""
    data = number.encode()
    return urlsafe_b64encode(sha256(data).digest()[:_CHECK_BYTES] + data).decode().rstrip("=")


def read_number_cursor(cursor: str) -> str:
    """Return the account number of a cursor. Raise ValueError if no list can have given it."""
    data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    number = data[_CHECK_BYTES:].decode()
    if write_number_cursor(number) != cursor or not number.isprintable():
        raise ValueError
    return number
