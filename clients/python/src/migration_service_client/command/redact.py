"""`migration-client redact`."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
from marshmallow import Schema, ValidationError
from marshmallow.fields import Field, Nested

from migration_payloads.errors import ParseError
from migration_payloads.files.ndjson import Line
from migration_payloads.files.output import OutputPath, replacing, say
from migration_payloads.profile import Profile
from migration_payloads.schemas import fields
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import field_below
from migration_payloads.schemas.json import encode_json, parse_json
from migration_payloads.schemas.privacy import is_nobodys
from migration_payloads.validation import ValidatedAccount, validate_account, validate_text
from migration_service_client.command.errors import CannotRunError
from migration_service_client.command.lines import file_argument, open_lines
from migration_service_client.command.output import count, json_option, show_json
from migration_service_client.command.pseudonyms import Pseudonyms

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


@click.command()
@file_argument
@click.option(
    "--line",
    "wanted",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Only this line. Give it several times for several lines.",
)
@click.option("--failed", is_flag=True, help="Only lines with an error.")
@click.option("-o", "--output", type=OutputPath(), required=True, metavar="OUT", help="The file to write.")
@json_option
def redact(*, file: Path, wanted: tuple[int, ...], failed: bool, output: Path, as_json: bool) -> None:
    """Write a sample of FILE to OUT without the values of persons.

    Each account keeps its structure, its lengths and its codes, and the service finds the same in it at the
    same paths. Names, e-mail addresses, telephone numbers, addresses, dates of birth, notes, references,
    numbers of accounts and EANs are replaced, as is everything that is not where it belongs. The same value
    has the same replacement in all of OUT, and another one the next time. Amounts, quantities, other dates
    and the names of members are kept.

    A line of which this cannot be said is left out, and named. FILE is NDJSON, plain or gzip. - is standard
    input. The exit status is 0 if every line was written, 1 if one was left out or does not exist, and 2 if
    redact could not run.
    """
    if output.exists() and file.exists() and output.samefile(file):
        raise CannotRunError(f"{output} is the file that is read. Name another one.")
    redaction = Redaction(secrets.token_bytes(32))
    written, left_out, missing = 0, list[dict[str, Any]](), set(wanted)
    with open_lines(file, "Redacting") as lines, replacing(output) as out:
        for line in _chosen(lines, missing, wanted):
            try:
                text = _redact(line, redaction, failed=failed)
            except _LeftOutError as error:
                left_out.append({"line_number": line.number, "reason": str(error)})
                continue
            if text is not None:
                out.write(text + b"\n")
                written += 1
    left_out += [{"line_number": it, "reason": "The file has no such account."} for it in sorted(missing)]
    if as_json:
        show_json({"written": written, "left_out": left_out})
    else:
        for it in left_out:
            say(f"Line {it['line_number']} is left out. {it['reason']}")
        say(f"{count(written, 'account')} written to {output}.")
    click.get_current_context().exit(1 if left_out else 0)


class _LeftOutError(Exception):
    """The line cannot be redacted. The text says why."""


def _chosen(lines: Iterator[Line], missing: set[int], wanted: tuple[int, ...]) -> Iterator[Line]:
    for line in lines:
        if line.number in missing or not wanted:
            missing.discard(line.number)
            yield line
            if wanted and not missing:
                return


def _redact(line: Line, redaction: Redaction, *, failed: bool) -> bytes | None:
    """Return the redacted line, or None if it is not wanted."""
    if line.text is None:
        raise _LeftOutError("It is longer than the service accepts.")
    try:
        before, account = find(line.text)
        if failed and not account.errors:
            return None
        text = encode_json(redaction.redact(parse_json(line.text)))
    except ParseError as error:
        raise _LeftOutError(f"It cannot be read: {error}") from error
    try:
        after, _ = find(text)
    except ParseError:
        after = []
    if after != before:
        one, other = Counter(before), Counter(after)
        differing = sorted({code for _, code, _ in (one - other) + (other - one)})
        raise _LeftOutError(f"The service would find something else in it: {', '.join(differing)}.")
    return text
