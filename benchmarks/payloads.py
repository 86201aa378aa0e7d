"""The payloads that are measured: different sample accounts of about 8 KB on average."""

import json
from collections.abc import Iterable
from pathlib import Path

from migration_service_local.samples import generate_accounts

#: The code of the import supplier of every account here.
SUPPLIER = "BENCH"
#: The team that accounts are linked to.
TEAM = "Benchmark team"
#: Stands for the external account number. The load generator replaces it with a new one.
NUMBER = "@NUMBER@"
#: The book also has a few large accounts. Without them the average is 8 KB.
_LARGEST = 12_000


def make_payloads(count: int) -> list[str]:
    """Return `count` payloads as JSON text on one line each, with NUMBER as the external account number."""
    texts: list[str] = []
    first = 0
    while len(texts) < count:
        for account in generate_accounts(500, supplier=SUPPLIER, first=first):
            account["external_account_number"] = NUMBER
            text = json.dumps(account, separators=(",", ":"))
            if len(text) <= _LARGEST:
                texts.append(text)
        first += 500
    return texts[:count]


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    """Write a file with these lines, for the load generator or as a batch."""
    path.write_text("\n".join([*lines, ""]))
    return path
