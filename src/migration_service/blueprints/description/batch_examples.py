"""Examples of batches and of their results, for the interface description."""

from migration_service.schemas.batches import BatchAnswerSchema, BatchProgressAnswerSchema, LineResultSchema
from migration_service.states import LineStatus

_BEFORE_ITS_END = dict.fromkeys(("reason", "finished_at", "lines_removed_at", "profile", "extracted_at"))
_COUNTS: dict[str, int] = {
    **dict.fromkeys(LineStatus, 0),
    "PENDING": 59_000,
    "IMPORTED": 40_000,
    "FAILED": 1_000,
}
BATCH = BatchAnswerSchema.example(**_BEFORE_ITS_END, started_at="2026-03-01T22:00:01Z", counts=_COUNTS)
_UNHINDERED = dict.fromkeys(("runs_until", "next_try_at", "waits_for_vendors", "condition"))
PROGRESS = BatchProgressAnswerSchema.example(
    **(BATCH | _UNHINDERED),
    error_counts={"invalid_phone_number": 640, "required": 360},
    warning_counts={},
)


LINE = LineResultSchema.example(
    external_account_number="10000003",
    service_account_number=None,
    errors=[
        {
            "detail": "This is not a valid Dutch telephone number. Send a foreign one with its prefix, "
            "such as +49.",
            "code": "invalid_phone_number",
            "attr": "customers.0.mobile",
            "value": "onbekend",
        }
    ],
    warnings=[],
    staging_result=None,
)
LINE_CSV = (
    "line_number,external_account_number,status,service_account_number,severity,code,path,detail,value\r\n"
    "4,10000004,IMPORTED,A-7KX2M9QD,,,,,\r\n"
)
