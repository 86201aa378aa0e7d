"""Examples for the interface description, made by the sample generator so that they are valid."""

from datetime import date
from typing import Any

from migration_service.samples import generate_accounts

SUPPLIER = "DEMO_SUPPLIER"

#: The smallest of a hundred generated accounts: a whole payload that can still be read.
ACCOUNT: dict[str, Any] = min(
    generate_accounts(100, supplier=SUPPLIER, seed=1, today=date(2026, 3, 1)), key=lambda it: len(str(it))
)
NUMBER: str = ACCOUNT["external_account_number"]
STAGED = {"import_supplier": SUPPLIER, "external_account_number": NUMBER}
PROCESS = {
    "external_account_number": NUMBER,
    "import_supplier_code": SUPPLIER,
    "operations_team_name": "Migration Team",
    "dry_run": False,
}
