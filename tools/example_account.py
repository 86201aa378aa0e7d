"""Writes the example account of the interface description: `python tools/example_account.py`."""

import json
import re
from datetime import date
from pathlib import Path

from migration_payloads.schemas.json import encode_json
from migration_service_local.samples import generate_accounts

FILE = Path(__file__).parent.parent / "src/migration_service/schemas/example_account.json"


def main() -> None:
    """Write the smallest of a hundred sample accounts, with its numbers as they are sent."""
    accounts = generate_accounts(100, supplier="DEMO_SUPPLIER", seed=1, today=date(2026, 3, 1))
    text = encode_json(min(accounts, key=lambda account: len(str(account)))).decode()
    # json would write 0.10 as 0.1, so numbers are passed as marked texts.
    marked = json.dumps(json.loads(text, parse_float="\0".__add__), indent=2, ensure_ascii=False)
    FILE.write_text(re.sub(r'"\\u0000([^"]*)"', r"\1", marked) + "\n")


if __name__ == "__main__":
    main()
