"""Writes the pages of docs/ that are made from the code: `make docs`. A test compares each with its file."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import field_reference
from marshmallow import Schema
from marshmallow.fields import List, Nested

from migration_service import errors
from migration_service.blueprints.description.error_catalogue import (
    CatalogueEntry,
    Place,
    added_data_errors,
    field_errors,
    request_errors,
    rule_errors,
)
from migration_service.blueprints.requests.errors import error_body
from migration_service.config import Settings, variable_of
from migration_service.config.variables import describe_allowed
from migration_service.schemas.events import CATALOGUE

DOCS = Path(__file__).parent.parent / "docs"

_ERRORS = """# Errors

Written by `make docs` from the code; do not edit it by hand.

Every error has this body. `code` is stable. `detail` is for people and may change, so do not parse it.
`errors` lists everything that was found, and `attr` is the dot-delimited path to the value at fault, or
`null`. Validate and stage add [suggestions](validation.md#suggestions-and-fix).

```json
{example}
```

`account_already_imported` also has the account's two numbers, and a failed import of transactions `status`,
`error_detail` and `transaction_data`.

## Answers to a whole request

The status is 400 where none is given.

{answers}
## Lines of a batch

A line can have these, beside the codes of the single endpoint. They are errors, unless they are called a \
warning, which fails no line.

{lines}
## Values of the wrong form

These are errors under every profile.

{fields}
## Rules across fields

These are warnings, unless they are called an error or a notice.
[Profiles](validation.md#errors-and-warnings) say which refuse an account. Sums may differ by half a cent.

{rules}
## Rules for added data

The rules above apply to added data, too. These warnings apply to it only.

{added_data}"""


def render_errors() -> str:
    """Return the text of suppliers/errors.md."""
    item = errors.ErrorItem(
        "invalid_phone_number",
        "This is not a valid Dutch telephone number. Send a foreign one with its prefix, such as +49.",
        "customers.1.landline",
    )
    example = error_body(errors.AccountFailedValidationError(errors=[item]))
    seen = {place: [entry for entry in request_errors() if entry.place == place] for place in Place}
    return _ERRORS.format(
        example=json.dumps(example, indent=2),
        answers=_table(seen[Place.ANSWER], usual="400"),
        lines=_table(seen[Place.LINE], usual="error"),
        fields=_table(field_errors(), usual="error"),
        rules=_table(rule_errors(), usual="warning"),
        added_data=_table(added_data_errors(), usual="warning"),
    )


#: What names only the thing that its code names, too.
_CHECK = re.compile(r"Check the (?P<what>id|state) of the [\w-]+(?P<rest>| first)\.")


def _table(entries: Iterable[CatalogueEntry], *, usual: str) -> str:
    """The codes and what to do, with their status or severity unless it is the usual one."""
    codes: dict[str, list[str]] = {}
    for it in entries:
        remedy = _CHECK.sub(r"Check the \g<what>\g<rest>.", it.remedy)
        codes.setdefault(remedy, []).append(f"`{it.code}`" + f" ({it.status})" * (it.status != usual))
    rows = (f"{', '.join(found)} | {remedy}\n" for remedy, found in codes.items())
    return f"code | what to do\n--- | ---\n{''.join(rows)}"


_EVENTS = """# Types of events

Written by `make docs` from the code; do not edit it by hand.

Every event has an `id`, a `type`, `created_at`, the code of its `import_supplier` or `null`, and `data`,
whose members are below. A type may get more members: ignore those that you do not know. The description of
the interface has their schemas and examples as `webhooks`.
"""


def render_events() -> str:
    """Return the text of suppliers/event-types.md."""
    text = _EVENTS
    for kind in CATALOGUE.values():
        text += f"\n## `{kind.type.value}`\n\n{field_reference.filled(kind.meaning(), 120)}\n"
        for path, meaning in _members(kind(), ""):
            text += field_reference.filled(f"- `{path}`: {meaning}", 120)
    return text


def _members(schema: Schema, above: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the meaning of each member, and then of those within it."""
    for name, field in schema.fields.items():
        inner: Any = field.inner if isinstance(field, List) else field
        path = f"{above}{name}{'[]' if inner is not field else ''}"
        values = [f"`{value}`" for value in field.metadata.get("enum", ()) if value is not None]
        meaning = field.metadata.get("meaning", "") + (f" One of {', '.join(values)}." if values else "")
        yield path, meaning + (" Or null." if field.allow_none else "")
        if isinstance(inner, Nested):
            yield from _members(inner.schema, f"{path}.")


_SETTINGS = """# Settings

Written by `make docs` from `config/settings.py`; do not edit it by hand.

A setting comes from its environment variable, or else from its default. `migration-service up` saves the
settings of its servers in `settings.json` in the home folder, so that other commands find them. That file
is used only if none of `DATABASE_URL`, `REDIS_URL` and `MIGRATION_SERVICE_SECRET_KEY` is in the
environment: set all three of them, or none. Brackets have the default of a setting, and what is allowed.

A *secret* can be in a file, whose path is in a variable with `_FILE` at its end, such as
`DATABASE_URL_FILE`. A line break at its end does not count, and an empty file counts as not set. A process
does not start if both variables are set, or if it cannot read the file.

"""


def render_settings() -> str:
    """Return the text of operators/settings.md."""
    text = _SETTINGS
    for setting in fields(Settings):
        default = "must be set" if setting.default is MISSING else f"`{setting.default}`"
        if setting.name == "home":
            default = "the user's data folder; for root /var/lib/migration-service"
        elif setting.default == "":
            default = "empty"
        elif isinstance(setting.default, bool):
            default = "`on`" if setting.default else "`off`"
        variable, help_text = variable_of(setting), setting.metadata["help"]
        if setting.metadata["secret"]:
            help_text += " *Secret.*"
        allowed = re.sub("^a (whole )?number (of|from) ", "", describe_allowed(setting))
        allowed = re.sub(r"^(\d+) or more$", r"≥\1", allowed)
        facts = f"{default}; {allowed}" if allowed else default
        text += field_reference.filled(f"- `{variable}` ({facts}): {help_text}", 150)
    return text


#: What writes each page.
WRITTEN: dict[str, Callable[[], str]] = {
    "suppliers/errors.md": render_errors,
    "suppliers/event-types.md": render_events,
    "suppliers/fields.md": field_reference.render,
    "operators/settings.md": render_settings,
}


if __name__ == "__main__":
    for file, render in WRITTEN.items():
        (DOCS / file).write_text(render())
