"""An account without what belongs to a person: same structure, same lengths, same findings."""

from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from marshmallow import Schema, ValidationError
from marshmallow.fields import Field, Nested

from migration_payloads.profile import Profile
from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.privacy import is_nobodys
from migration_payloads.validation import ValidatedAccount, validate_account, validate_text
from migration_service_client.command.pseudonyms import Pseudonyms
from migration_service_client.command.values import field_below

#: The severity, the code and the path of each finding.
Findings = list[tuple[str, str, str]]

_Path = tuple[str, ...]
#: Says that a name is nobody's, such as "the occupier".
_OCCUPIER = "customer_may_not_be_named_the_occupier"


class Redaction:
    """Replaces the values of persons in accounts, consistently under a secret key."""

    def __init__(self, key: bytes) -> None:
        self._pseudonyms = made = Pseudonyms(key)
        self._kinds: dict[type, Callable[[str, Callable[[str], bool]], str]] = {
            fields.EmailAddress: made.email,
            fields.PhoneNumber: made.phone,
            fields.Day: made.day,
            fields.Ean: made.ean,
            fields.DocumentPath: made.path,
        }

    def redact(self, account: Any) -> Any:
        """Return the account with the same members and items, in which the values of persons are replaced.

        Codes, amounts, quantities and dates other than of birth are kept where they are expected. All else is
        replaced.
        """
        return self._redact(account, ACCOUNT_IMPORT, ())

    def _redact(self, value: Any, field: Field[Any] | Schema | None, path: _Path) -> Any:
        if isinstance(value, dict):
            # A name where none is expected can be anything, even a person's.
            own = not isinstance(field, Schema | Nested)
            return {
                self._pseudonyms.text(name) if own else name: self._redact(
                    below, field_below(field, name), (*path, name)
                )
                for name, below in value.items()
            }
        if isinstance(value, list):
            inner = field.inner if isinstance(field, fields.Values) else field
            return [self._redact(it, inner, (*path, "0")) for it in value]
        if value is None or isinstance(value, bool):
            return value
        known = field if isinstance(field, Field) else None
        if known is not None and _is_kept(known, value):
            return value
        return self._replace(value, known, path)

    def _replace(self, value: str | int | Decimal, field: Field[Any] | None, path: _Path) -> Any:
        if not isinstance(value, str):
            return self._replace_number(value, field)
        if not value:
            return value
        if path[-1:] == ("family_name",) and _OCCUPIER in _codes_alone(path, value):
            return value
        kind = next((it for it in self._kinds if isinstance(field, it)), None)
        replace = self._kinds[kind] if kind else self._pseudonyms.text
        return replace(value, _likeness(value, field, path))

    def _replace_number(self, value: int | Decimal, field: Field[Any] | None) -> int | Decimal:
        written = format(value, "f") if isinstance(value, Decimal) else str(value)
        begins = written.lstrip("-")[0] == "0"
        replace = self._pseudonyms.phone if isinstance(field, fields.PhoneNumber) else self._pseudonyms.text
        return type(value)(replace(written, lambda it: (it.lstrip("-")[0] == "0") == begins))


def find(text: bytes) -> tuple[Findings, ValidatedAccount]:
    """Return the findings of a line in an order of their own, and the account.

    Raise ParseError if it is not JSON.
    """
    account = validate_text(text, Profile.LENIENT)
    found = (("error", account.errors), ("warning", account.warnings))
    return sorted((kind, it.code, it.attr or "") for kind, items in found for it in items), account


def _is_kept(field: Field[Any], value: Any) -> bool:
    if not is_nobodys(field, value):
        return False
    if isinstance(field, fields.OpenChoice) and value not in field.vocabulary.__members__.values():
        return False
    return _codes_of_field(field, value) == ()


def _likeness(value: str, field: Field[Any] | None, path: _Path) -> Callable[[str], bool]:
    """Return what says whether another text is of the same kind: the same is wrong with it."""
    if field is None:
        return lambda _: True
    if isinstance(field, fields.EmailAddress | fields.PhoneNumber | fields.Ean | fields.Day) or path[
        -1
    ].endswith(("_name", "_postcode")):
        codes = _codes_alone(path, value)
        return lambda other: _codes_alone(path, other) == codes
    fault = _codes_of_field(field, value)
    return lambda other: _codes_of_field(field, other) == fault


def _codes_of_field(field: Field[Any], value: Any) -> tuple[str, ...]:
    try:
        field.deserialize(value)
    except ValidationError as error:
        return tuple(getattr(it, "code", "invalid") for it in error.messages)
    return ()


@lru_cache(maxsize=10_000)
def _codes_alone(path: _Path, value: str) -> tuple[str, ...]:
    """Return the codes that a value has in an account with nothing else, by the fields and by the rules."""
    probe: Any = value
    for part in reversed(path):
        probe = [probe] if part == "0" else {part: probe}
    account = validate_account(probe, Profile.LENIENT)
    attr = ".".join(path)
    return tuple(it.code for it in (*account.errors, *account.warnings) if it.attr == attr)
