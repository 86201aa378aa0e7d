"""Examples of wave plans, for the interface description."""

from typing import Any

from migration_service.blueprints.description.examples import SUPPLIER
from migration_service.schemas.waves import ANSWERED_WINDOW, STRATUM, WAVE_BRAKE
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
_PILOT: dict[str, Any] = {
    "number": 1,
    "name": "Pilot",
    "state": "DIFFERS",
    "reason": None,
    "waits_for": None,
    "continue_if_clean": False,
    "batch_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12",
    "lines": 200,
    "counts": {**_COUNTS, "IMPORTED": 198, "FAILED": 2},
    "window": ANSWERED_WINDOW,
    "opens_at": None,
    "closes_at": None,
    "lines_per_minute": 600,
    "brake": WAVE_BRAKE,
    "strata": [STRATUM],
    "began_at": "2026-03-02T21:00:03Z",
    "reconciled_at": "2026-03-02T21:20:31Z",
    "differing": 0,
    "open": 2,
    "reverted": 0,
    "existing": 198,
    "decided_by": None,
    "decided_at": None,
    "decision_reason": None,
}
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
    "brake": {**WAVE_BRAKE, "stop_after_errors": "2%", "stop_window_lines": None},
}
PLAN: dict[str, Any] = {
    "plan_id": "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11",
    "import_supplier": SUPPLIER,
    "operations_team_name": "Migration Team",
    "name": "Spring 2026",
    "seed": 20_260_301,
    "continue_if_clean": True,
    "created_at": "2026-03-01T10:15:00Z",
    "finished_at": None,
    "unplanned": 0,
    "older_versions": 0,
    "undo_id": None,
    "waves": [_PILOT, _SECOND],
}
