"""Write docs/suppliers/errors.md from the code: `python tools/error_docs.py`. A test compares the two."""

import json
from collections.abc import Iterable
from pathlib import Path

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

FILE = Path(__file__).parent.parent / "docs/suppliers/errors.md"

_HEAD = """# Errors

Written by `make docs` from the code; do not edit it by hand.

Every error has the same form of body. `code` is stable. `detail` says what is wrong, for people: it may
change, so do not parse it. `errors` lists everything that was found, each with its own `detail` and `code`,
and in `attr` the dot-delimited path to the value at fault, or `null`. Validate and stage add
[suggestions](validation.md#suggestions-and-fix) if a correction is known that has no value of a person.

```json
{example}
```

Some answers have more members. `account_already_imported` has the account's two numbers. An import of
transactions that fails has `status`, `error_detail` and `transaction_data`.

"""


def render() -> str:
    """Return the text of docs/suppliers/errors.md."""
    item = errors.ErrorItem(
        "invalid_phone_number",
        "This is not a valid Dutch telephone number. Send a foreign one with its prefix, such as +49.",
        "customers.1.landline",
    )
    example = error_body(errors.AccountFailedValidationError(errors=[item]))
    parts = [
        _HEAD.replace("{example}", json.dumps(example, indent=2)),
        "## Answers to a whole request\n\n",
        _table(_seen_in(Place.ANSWER)),
        "\n## Lines of a batch\n\nA line can have these, beside the codes of the single endpoint. "
        "A line with a warning has not failed for it.\n\n",
        _table(_seen_in(Place.LINE)),
        "\n## Values of the wrong form\n\nThese are errors under every profile.\n\n",
        _table(field_errors()),
        "\n## Rules across fields\n\nA warning is kept with the staged account, and does not refuse it. "
        "Under the strict profile, or with `?profile=strict`, it is an error. "
        "Sums may differ by half a cent.\n\n",
        _table(rule_errors()),
        "\n## Rules for added data\n\nThe rules above apply to added data, too. These apply to it only.\n\n",
        _table(added_data_errors()),
    ]
    return "".join(parts)


def _seen_in(place: Place) -> list[CatalogueEntry]:
    return [entry for entry in request_errors() if entry.place == place]


def _table(entries: Iterable[CatalogueEntry]) -> str:
    """The codes with their status or severity, and what to do."""
    codes: dict[str, list[str]] = {}
    for it in entries:
        codes.setdefault(it.remedy, []).append(f"`{it.code}` ({it.status})")
    rows = (f"{', '.join(found)} | {remedy}\n" for remedy, found in codes.items())
    return f"code | what to do\n--- | ---\n{''.join(rows)}"


if __name__ == "__main__":
    FILE.write_text(render())
