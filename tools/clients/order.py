"""The order for a client: what it gets, and what it requests. It is the same for all clients."""

import json
import os
from pathlib import Path
from typing import Any

ADDRESS = os.environ["SERVICE_ADDRESS"]
API_KEY = os.environ["SERVICE_API_KEY"]
#: supplier, team, vendor, accounts (two for requests, two for the batch).
ORDER: dict[str, Any] = json.loads(Path(os.environ["SERVICE_ORDER"]).read_text(encoding="utf-8"))

MUTATION = (
    "mutation ($input: ObtainServiceTokenInput!) { obtainServiceToken(input: $input) "
    "{ token refreshToken refreshExpiresIn } }"
)
TOKEN_REQUEST = {"query": MUTATION, "variables": {"input": {"APIKey": API_KEY}}}
FIRST, SECOND, *BATCH = ORDER["accounts"]
PAIR = {
    "import_supplier": ORDER["supplier"],
    "external_account_number": FIRST["external_account_number"],
}
NDJSON = "".join(json.dumps(account) + "\n" for account in BATCH).encode()


def process_body(account: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
    """Return the body of a process request."""
    return {
        "import_supplier_code": ORDER["supplier"],
        "external_account_number": account["external_account_number"],
        "operations_team_name": ORDER["team"],
        "dry_run": dry_run,
    }
