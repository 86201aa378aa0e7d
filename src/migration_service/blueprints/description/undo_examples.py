"""Examples of undos and of their outcomes, for the interface description."""

from typing import Any

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.schemas.undo import (
    UndoAnswerSchema,
    UndoOutcomeAnswerSchema,
    UndoPreviewAnswerSchema,
    UndoProgressAnswerSchema,
)

TARGET: dict[str, Any] = {
    "import_supplier": SUPPLIER,
    "batch": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
}
BODY = TARGET | {"reason": "The mapping of tariffs was wrong."}
PREVIEW = UndoPreviewAnswerSchema.example(plan_id=None, wave_number=None)
UNDO = UndoAnswerSchema.example(plan_id=None, wave_number=None, finished_at=None)
PROGRESS = UndoProgressAnswerSchema.example(**UNDO, counts={"PENDING": 500, "REVERTED": 497, "KEPT": 3})
OUTCOME = UndoOutcomeAnswerSchema.example()
OUTCOME_CSV = (
    "external_account_number,service_account_number,outcome,reasons\r\n"
    "10000001,A-7KX2M9QD,KEPT,email_sent\r\n"
)
