"""Examples of batches and of their results, for the interface description."""

from typing import Any

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.schemas.brakes import BRAKE
from migration_service.states import LineStatus

BATCH: dict[str, Any] = {
    "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
    "import_supplier": SUPPLIER,
    "operations_team_name": "Migration Team",
    "name": "First night",
    "file_name": "book.ndjson.gz",
    "file_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "file_bytes": 36_412_877,
    "kind": "accounts",
    "options": {},
    "mode": "import",
    "profile": None,
    "extracted_at": None,
    "older_versions": None,
    "source": "upload",
    "state": "RUNNING",
    "reason": None,
    "created_at": "2026-03-01T22:00:00Z",
    "started_at": "2026-03-01T22:00:01Z",
    "finished_at": None,
    "lines_removed_at": None,
    "lines": 100_000,
    "counts": {**dict.fromkeys(LineStatus, 0), "PENDING": 59_000, "IMPORTED": 40_000, "FAILED": 1_000},
    "undone": 0,
}
PROGRESS = {
    **BATCH,
    "error_counts": {"invalid_phone_number": 640, "required": 360},
    "warning_counts": {},
    "staging_counts": {"STAGED": 39_988, "REPLACED": 12},
    "rate": 1300.0,
    "time_left": 45.4,
    "time_left_low": 36.0,
    "time_left_high": 62.5,
    "runs_until": None,
    "next_try_at": None,
    "waits_for_vendors": None,
    "condition": None,
    "brake": BRAKE,
    "control_totals_differing": 0,
    "control_totals_as_given": True,
}


LINE = {
    "line_number": 3,
    "external_account_number": "10000003",
    "status": "FAILED",
    "service_account_number": None,
    "errors": [
        {
            "detail": "This is not a valid Dutch telephone number. Send a foreign one with its prefix, "
            "such as +49.",
            "code": "invalid_phone_number",
            "attr": "customers.0.mobile",
            "value": "onbekend",
        }
    ],
    "warnings": [],
    "staging_result": None,
}
LINE_CSV = (
    "line_number,external_account_number,status,service_account_number,severity,code,path,detail,value\r\n"
    "4,10000004,IMPORTED,A-7KX2M9QD,,,,,\r\n"
)
