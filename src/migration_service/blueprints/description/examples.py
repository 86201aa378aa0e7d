"""Examples for the interface description: a valid account, and bodies that name it."""

from pathlib import Path
from typing import Any

from migration_payloads.schemas.json import parse_json
from migration_service import schemas

#: A complete but short payload: a household with electricity.
ACCOUNT: dict[str, Any] = parse_json(Path(schemas.__file__).with_name("example_account.json").read_bytes())
SUPPLIER: str = ACCOUNT["import_supplier"]
NUMBER: str = ACCOUNT["external_account_number"]
STAGED = {"import_supplier": SUPPLIER, "external_account_number": NUMBER}
PROCESS = {
    "external_account_number": NUMBER,
    "import_supplier_code": SUPPLIER,
    "operations_team_name": "Migration Team",
    "dry_run": False,
}
