"""Write docs/suppliers/errors.md from the code: `python tools/error_docs.py`. A test compares the two."""

import json
import re
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

Every error has this body. `code` is stable. `detail` is for people and may change, so do not parse it.
`errors` lists everything that was found, and `attr` is the dot-delimited path to the value at fault, or
`null`. Validate and stage add [suggestions](validation.md#suggestions-and-fix).

```json
{example}
```

`account_already_imported` also has the account's two numbers, and a failed import of transactions `status`,
`error_detail` and `transaction_data`.

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
        "## Answers to a whole request\n\nThe status is 400 where none is given.\n\n",
        _table(_seen_in(Place.ANSWER), usual="400"),
        "\n## Lines of a batch\n\nA line can have these, beside the codes of the single endpoint. "
        "They are errors, unless they are called a warning, which fails no line.\n\n",
        _table(_seen_in(Place.LINE), usual="error"),
        "\n## Values of the wrong form\n\nThese are errors under every profile.\n\n",
        _table(field_errors(), usual="error"),
        "\n## Rules across fields\n\nThese are warnings, unless they are called an error or a notice.\n"
        "[Profiles](validation.md#errors-and-warnings) say which refuse an account. "
        "Sums may differ by half a cent.\n\n",
        _table(rule_errors(), usual="warning"),
        "\n## Rules for added data\n\nThe rules above apply to added data, too. "
        "These warnings apply to it only.\n\n",
        _table(added_data_errors(), usual="warning"),
    ]
    return "".join(parts)


def _seen_in(place: Place) -> list[CatalogueEntry]:
    return [entry for entry in request_errors() if entry.place == place]


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


if __name__ == "__main__":
    FILE.write_text(render())
