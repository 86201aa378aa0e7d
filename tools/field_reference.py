"""The text of docs/suppliers/fields.md, for `reference_pages`."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from marshmallow import Schema
from marshmallow import fields as plain
from marshmallow.validate import OneOf

from migration_payloads.schemas import fields as kinds
from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.coded import CodedLength
from migration_service.schemas import added_data, requests

#: The schemas that are shown, in this order. Nested schemas follow their parents.
BODIES: tuple[type[Schema], ...] = (
    AccountImportSchema,
    requests.ProcessRequestSchema,
    added_data.NotesRequestSchema,
    added_data.TransactionsRequestSchema,
    added_data.StatementsRequestSchema,
    added_data.PaymentInstructionRequestSchema,
)

_HEAD = """# Fields

Written by `make docs` from the schemas; do not edit it by hand.

Fields without a `*` may be left out. An empty text counts as left out. An empty date or number is an error,
and so is `null` where a field does not say otherwise. Dates are written `YYYY-MM-DD`, moments
`YYYY-MM-DDTHH:MM:SSZ`. A number may also be a text. A text has at most 255 characters, an identifier 128, a
code 64 and a document path 1,024, unless another number is given: `text ≤32`. An identifier is refused if
it has what looks like something else: outer spaces, invisible characters, a digit of another script, a dash
that is no hyphen, decomposed letters, or a letter that is lost (U+FFFD) or was read as several (`Ã¼`). The
description of the interface has an example of each field, and [errors](errors.md#rules-across-fields) the
rules across fields.

"""

_KINDS: tuple[tuple[type, str], ...] = (
    (kinds.FreeObject, "object"),
    (kinds.NumberText, "number as text"),
    (kinds.Number, "number"),
    (kinds.WholeNumber, "whole number"),
    (kinds.Flag, "boolean"),
    (kinds.Day, "date"),
    (kinds.UtcMoment, "time in UTC"),
    (kinds.LocalMoment, "time without zone"),
    (kinds.NormalIdentifier, "identifier"),
    (kinds.Ean, "EAN"),
    (kinds.DocumentPath, "document path"),
    (kinds.OpenChoice, "code, open list"),
    (kinds.Choice, "code, closed list"),
    (kinds.Code, "code"),
    (kinds.Text, "text"),
)

#: What the head of the page says of the length of each kind.
_USUAL_LENGTH = {"text": 255, "identifier": 128, "code": 64, "document path": 1024}


def render() -> str:
    """Return the text of docs/suppliers/fields.md."""
    shown: dict[str, dict[str, str]] = {}
    for schema in _with_nested(BODIES):
        shown[_name(schema)] = {name: _row(name, field) for name, field in schema().fields.items()}
    meanings = {_name(schema): _meaning_of(schema) for schema in _with_nested(BODIES)}
    return _HEAD + "\n".join(
        f"## {name}\n\n{textwrap.fill(meanings[name] + _shared(name, shown), 110)}\n\n"
        f"{''.join(_own_rows(name, shown))}".rstrip()
        + "\n"
        for name in shown
    )


def _earlier(name: str, shown: dict[str, dict[str, str]]) -> tuple[str, list[str]]:
    """Return the earlier object that has the most fields of an object, at least three, and their names."""
    best: tuple[str, list[str]] = ("", [])
    for other in list(shown)[: list(shown).index(name)]:
        same = [field for field, row in shown[name].items() if shown[other].get(field) == row]
        best = max(best, (other, same), key=lambda found: len(found[1]))
    return best if len(best[1]) > 2 else ("", [])


def _shared(name: str, shown: dict[str, dict[str, str]]) -> str:
    """Return the sentence about the fields that an earlier object has, too."""
    other, same = _earlier(name, shown)
    if not other:
        return ""
    link = f"[{other}](#{other.lower()})"
    if len(same) == len(shown[name]):
        missing = ", ".join(f"`{field}`" for field in shown[other] if field not in same)
        return f" It has the fields of {link} without {missing}."
    *first, last = (f"`{field}`" for field in same)
    return f" {', '.join(first)} and {last} are as in {link}."


def _own_rows(name: str, shown: dict[str, dict[str, str]]) -> list[str]:
    _, same = _earlier(name, shown)
    return [row for field, row in shown[name].items() if field not in same]


def _with_nested(schemas: tuple[type[Schema], ...]) -> Iterator[type[Schema]]:
    seen: set[type[Schema]] = set()
    waiting = list(schemas)
    while waiting:
        schema = waiting.pop(0)
        if schema in seen:
            continue
        seen.add(schema)
        yield schema
        nested = [type(field.schema) for field in schema().fields.values() if isinstance(field, plain.Nested)]
        waiting = [*nested, *waiting]


def _name(schema: type[Schema]) -> str:
    return schema.__name__.removesuffix("Schema")


def _meaning_of(schema: type[Schema]) -> str:
    meaning = inspect.cleandoc(schema.__doc__ or "").partition("\n")[0]
    # Suppliers do not have the document whose sections the code refers to.
    return re.sub(r",? ?[(]section [^)]*[)]", "", meaning)


def _row(name: str, field: Any) -> str:
    return filled(f"- `{name}`{'*' * field.required}, {_kind(field)}: {_meaning(field)}", 150)


def filled(text: str, width: int) -> str:
    """Return a paragraph or an item of a list as lines that are not wider than this, unless a word is."""
    indent = "  " * text.startswith("- ")
    lines = textwrap.wrap(
        text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join([*lines, ""])


def _meaning(field: Any) -> str:
    """Return what a field means, its unit and sign, and its listed values."""
    unit, values = field.metadata["unit"], [f"`{value}`" for value in allowed_values(field)]
    sentences = [field.metadata["meaning"]]
    sentences += [f"{unit[0].upper()}{unit[1:]}."] if unit else []
    sentences += [f"Values: {', '.join(values)}."] if values else []
    return " ".join(sentences)


def _kind(field: Any) -> str:
    if isinstance(field, kinds.Values):
        return f"list of {_kind(field.inner)}"
    if isinstance(field, kinds.Object | kinds.Objects):
        target = type(field.schema).__name__.removesuffix("Schema")
        return f"{'list of ' * isinstance(field, kinds.Objects)}[{target}](#{target.lower()})"
    kind = next(text for of, text in _KINDS if isinstance(field, of))
    longest = [it.max for it in field.validators if isinstance(it, CodedLength)]
    usual = _USUAL_LENGTH.get(kind.partition(",")[0])
    return f"{kind} ≤{longest[0]}" if longest and longest[0] != usual and kind != "EAN" else kind


def allowed_values(field: Any) -> list[str]:
    """Return the listed values of a field, if it has a list."""
    if isinstance(field, kinds.OpenChoice):
        return [str(word) for word in field.vocabulary]
    return [str(word) for it in field.validators if isinstance(it, OneOf) for word in it.choices]
