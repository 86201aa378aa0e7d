"""Write docs/suppliers/event-types.md from the catalogue of events. A test compares the two."""

import json
import textwrap
from pathlib import Path
from typing import Any

from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from migration_service.schemas.events import CATALOGUE, EventKind

FILE = Path(__file__).parent.parent / "docs/suppliers/event-types.md"

_HEAD = """# Types of events

Written by `make docs` from the code; do not edit it by hand.

Every event has an `id`, a `type`, `created_at`, the code of its `import_supplier` or `null`, and `data`.
Below is an example of each type, and the JSON schema of its `data`. A type may get more members: ignore those
that you do not know. [Events](events.md) says how to read them.
"""


def render() -> str:
    """Return the text of docs/suppliers/event-types.md."""
    return _HEAD + "".join(map(_section, CATALOGUE.values()))


def _section(kind: EventKind) -> str:
    meaning = textwrap.fill(kind.meaning, 150, break_long_words=False, break_on_hyphens=False)
    schema, example = (json.dumps(it, indent=2) for it in (_schema(kind), kind.example))
    return f"\n## `{kind.type.value}`\n\n{meaning}\n\n```json\n{example}\n```\n\n```json\n{schema}\n```\n"


def _schema(kind: EventKind) -> dict[str, Any]:
    """Return the JSON schema of the data, with the schemas within it in their places."""
    nameless: Any = lambda _schema: None  # noqa: E731
    plugin = MarshmallowPlugin(schema_name_resolver=nameless)
    APISpec("", "", "3.1.0", plugins=[plugin])
    converter: Any = plugin.converter
    return dict(_bare(converter.schema2jsonschema(kind.schema())))


def _bare(schema: Any) -> Any:
    """Return a schema without the members that are not JSON schema, and without examples."""
    if isinstance(schema, list):
        return [_bare(it) for it in schema]
    if not isinstance(schema, dict):
        return schema
    properties = {name: _bare(it) for name, it in schema.get("properties", {}).items()}
    rest = {
        key: _bare(it)
        for key, it in schema.items()
        if key not in ("example", "meaning", "unit", "properties")
    }
    return rest | ({"properties": properties} if properties else {})


if __name__ == "__main__":
    FILE.write_text(render())
