"""Writes docs/suppliers/fields.md: `python tools/field_reference.py`. A test compares it with the schemas."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marshmallow import Schema
from marshmallow import fields as plain
from marshmallow.validate import OneOf

from migration_payloads import rules
from migration_payloads.rules.catalogue import RULES
from migration_payloads.schemas import fields as kinds
from migration_payloads.schemas.account import AccountImportSchema
from migration_payloads.schemas.coded import CodedLength
from migration_payloads.schemas.json import encode_json
from migration_service.schemas import added_data, requests

ROOT = Path(__file__).parent.parent
FILE = ROOT / "docs/suppliers/fields.md"

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

All other fields than the required ones may be left out. An empty text counts as left out. An empty date or
number is an error, and so is `null`. Dates are written `YYYY-MM-DD`, moments `YYYY-MM-DDTHH:MM:SSZ`.
Lengths are in characters. The rules that look at a field are explained in [errors](errors.md).

"""

_KINDS: tuple[tuple[type, str], ...] = (
    (kinds.Objects, "list of objects"),
    (kinds.Object, "object"),
    (kinds.FreeObject, "object"),
    (kinds.NumberText, "number as text"),
    (kinds.Number, "number, or number as text"),
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

#: The modules of rules for each schema, because fields of several schemas have the same name.
_RULES_ABOUT: dict[str, tuple[str, ...]] = {
    "AccountImport": ("billing", "names"),
    "Customer": ("customers", "names"),
    "UserDetail": ("customers",),
    "SupplyAddress": ("addresses", "billing", "names"),
    "MeterPoint": ("addresses", "agreements", "ledgers", "periods"),
    "Agreement": ("agreements",),
    "MonthlyAdvanceChargeTemplate": ("agreements",),
    "Meter": ("meters",),
    "Register": ("meters", "open_lists"),
    "ConfigurationPeriod": ("periods",),
    "GridOperatorEffectivePeriod": ("periods",),
    "BillingConfigurationPeriod": ("periods",),
    "EstimatedAnnualVolume": ("periods",),
    "Ledger": ("ledgers",),
    "Transaction": ("transactions", "line_items", "ledgers", "statements", "open_lists"),
    "LineItem": ("line_items", "open_lists", "periods"),
    "LineItemParams": ("line_items",),
    "TaxItem": ("line_items",),
    "TaxItemParams": ("line_items",),
    "Statement": ("statements", "periods"),
}


def render() -> str:
    """Return the text of docs/suppliers/fields.md."""
    schemas = list(_with_nested(BODIES))
    return _HEAD + "\n".join(_section(schema) for schema in schemas)


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


def _section(schema: type[Schema]) -> str:
    name = schema.__name__.removesuffix("Schema")
    meaning = inspect.cleandoc(schema.__doc__ or "").partition("\n")[0]
    rows = [
        # Suppliers do not have the document whose sections the code refers to.
        f"## {name}\n\n{re.sub(r',? ?[(]section [^)]*[)]', '', meaning)}\n\n",
    ]
    rows += [_row(name, field_name, field) for field_name, field in schema().fields.items()]
    return "".join(rows)


def _row(schema: str, name: str, field: Any) -> str:
    kind = f"{_kind(field)}, required" if field.required else _kind(field)
    text = f"- `{name}` ({kind}): {_meaning(field)}"
    if not isinstance(field, kinds.Flag | kinds.Object | kinds.Objects):  # an object's fields have theirs
        text += f" Example: `{_json(field.metadata['example'])}`."
    links = [f"[`{code}`](errors.md#{code}-{severity})" for code, severity in rules_of(schema, name)]
    if links:
        text += f" Rules: {', '.join(links)}"
    return (
        textwrap.fill(text, 150, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        + "\n"
    )


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
    kind = next(text for of, text in _KINDS if isinstance(field, of))
    if isinstance(field, kinds.Object | kinds.Objects):
        target = type(field.schema).__name__.removesuffix("Schema")
        return f"{kind}: [{target}](#{target.lower()})"
    longest = [it.max for it in field.validators if isinstance(it, CodedLength)]
    return f"{kind}, at most {longest[0]}" if longest and not isinstance(field, kinds.Ean) else kind


def allowed_values(field: Any) -> list[str]:
    """Return the listed values of a field, if it has a list."""
    if isinstance(field, kinds.OpenChoice):
        return [str(word) for word in field.vocabulary]
    return [str(word) for it in field.validators if isinstance(it, OneOf) for word in it.choices]


def rules_of(schema: str, name: str) -> list[tuple[str, str]]:
    """Return the code and severity of each rule about the schema whose source names the field."""
    modules = {f"{rules.__name__}.{module}" for module in _RULES_ABOUT.get(schema, ())}
    about = [rule for rule in RULES if rule.check.__module__ in modules]
    return [(rule.code, str(rule.severity)) for rule in about if name in _names_in(rule.check)]


def _names_in(check: Any) -> set[str]:
    """Return the texts that a rule's source has, and those of the constants and functions that it uses."""
    module = inspect.getmodule(check)
    source = inspect.getsource(check)
    for name in set(re.findall(r"\b_?[A-Za-z_]\w+\b", source)) & set(vars(module)):
        value = vars(module)[name]
        if inspect.isfunction(value) and value.__module__.startswith(rules.__name__):
            source += inspect.getsource(value)
        elif isinstance(value, tuple | str):
            source += repr(value)
    return set(re.findall(r"""["'](\w+)["']""", source))


def _json(value: Any) -> str:
    text = encode_json(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(render())
