"""Examples of wave plans, for the interface description."""

from typing import Any

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.schemas.waves import (
    WAVE_THRESHOLD,
    WaveAnswerSchema,
    WavePlanAnswerSchema,
)
from migration_service.states import LineStatus

_NIGHTS = {"start": "22:00", "end": "06:00", "time_zone": "Europe/Amsterdam"}
_COUNTS = dict.fromkeys(LineStatus, 0)

BODY: dict[str, Any] = {
    "import_supplier": SUPPLIER,
    "operations_team_name": "Migration Team",
    "name": "Spring 2026",
    "continue_if_clean": True,
    "window": _NIGHTS | {"first_day": "2026-03-02"},
    "waves": [
        {"name": "Pilot", "sample": 200, "continue_if_clean": False, "lines_per_minute": 600},
        {"size": 10_000, "brake": {"stop_after_errors": "2%"}},
        {"rest": True},
    ],
}
_UNDECIDED = dict.fromkeys(
    ("waits_for", "opens_at", "closes_at", "decided_by", "decided_at", "decision_reason")
)
_PILOT = WaveAnswerSchema.example(
    **_UNDECIDED,
    state="DIFFERS",
    reason=None,
    counts={**_COUNTS, "IMPORTED": 198, "FAILED": 2},
    lines_per_minute=600,
    began_at="2026-03-02T21:00:03Z",
    reconciled_at="2026-03-02T21:20:31Z",
)
_SECOND: dict[str, Any] = {
    **dict.fromkeys(_PILOT),
    "number": 2,
    "state": "WAITING",
    "waits_for": "approval",
    "continue_if_clean": True,
    "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b13",
    "lines": 10_000,
    "counts": {**_COUNTS, "PENDING": 10_000},
    "reverted": 0,
    "existing": 0,
    "window": _PILOT["window"],
    "opens_at": "2026-03-03T21:00:00Z",
    "closes_at": "2026-03-04T05:00:00Z",
    "brake": {**WAVE_THRESHOLD, "stop_after_errors": "2%", "stop_window_lines": None},
}
PLAN = WavePlanAnswerSchema.example(
    created_at="2026-03-01T10:15:00Z", finished_at=None, undo_id=None, waves=[_PILOT, _SECOND]
)
