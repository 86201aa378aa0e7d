"""Write docs/suppliers/event-types.md from the catalogue of events. A test compares the two."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from marshmallow import Schema, fields

from migration_service.schemas.events import CATALOGUE, EventKind

FILE = Path(__file__).parent.parent / "docs/suppliers/event-types.md"

_HEAD = """# Types of events

Written by `make docs` from the code; do not edit it by hand.

Every event has an `id`, a `type`, `created_at`, the code of its `import_supplier` or `null`, and `data`,
whose members are below. A type may get more members: ignore those that you do not know. The description of
the interface has their schemas and examples as `webhooks`.
"""


def render() -> str:
    """Return the text of docs/suppliers/event-types.md."""
    return _HEAD + "".join(map(_section, CATALOGUE.values()))


def _section(kind: EventKind) -> str:
    rows = "".join(_filled(f"- `{path}`: {meaning}") for path, meaning in _members(kind.schema(), ""))
    return f"\n## `{kind.type.value}`\n\n{_filled(kind.meaning)}\n{rows}"


def _filled(text: str) -> str:
    indent = "  " * text.startswith("- ")
    filled = textwrap.fill(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return f"{filled}\n"


def _members(schema: Schema, above: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the meaning of each member, and then of those within it."""
    for name, field in schema.fields.items():
        inner: Any = field.inner if isinstance(field, fields.List) else field
        path = f"{above}{name}{'[]' if inner is not field else ''}"
        values = [f"`{value}`" for value in field.metadata.get("enum", ()) if value is not None]
        meaning = field.metadata.get("meaning", "") + (f" One of {', '.join(values)}." if values else "")
        yield path, meaning + (" Or null." if field.allow_none else "")
        if isinstance(inner, fields.Nested):
            yield from _members(inner.schema, f"{path}.")


if __name__ == "__main__":
    FILE.write_text(render())
