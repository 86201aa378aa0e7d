"""Examples of undos and of their outcomes, for the interface description."""

from typing import Any

from migration_service.blueprints.description.examples import SUPPLIER

TARGET: dict[str, Any] = {
    "import_supplier": SUPPLIER,
    "batch": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
}
BODY = TARGET | {"reason": "The mapping of tariffs was wrong."}
PREVIEW = {
    "import_supplier": SUPPLIER,
    "batch_id": TARGET["batch"],
    "plan_id": None,
    "wave_number": None,
    "accounts": 1_000,
    "revertible": 997,
    "revertible_with_overrides": 1_000,
    "emails": 12,
    "gone": 0,
    "blockers": [{"code": "email_sent", "may_be_overridden": True, "accounts": 3, "examples": ["10000001"]}],
}
UNDO = {
    "undo_id": "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90",
    "import_supplier": SUPPLIER,
    "batch_id": TARGET["batch"],
    "plan_id": None,
    "wave_number": None,
    "state": "RUNNING",
    "reason": BODY["reason"],
    "overrides": [],
    "started_by": "5f2c9a1be0d4",
    "created_at": "2026-03-02T08:00:00Z",
    "finished_at": None,
    "accounts": 1_000,
}
PROGRESS = UNDO | {
    "counts": {"PENDING": 500, "REVERTED": 497, "KEPT": 3},
    "kept_counts": {"email_sent": 3},
}
OUTCOME = {
    "external_account_number": "10000001",
    "service_account_number": "A-7KX2M9QD",
    "outcome": "KEPT",
    "reasons": ["email_sent"],
}
OUTCOME_CSV = (
    "external_account_number,service_account_number,outcome,reasons\r\n"
    "10000001,A-7KX2M9QD,KEPT,email_sent\r\n"
)
