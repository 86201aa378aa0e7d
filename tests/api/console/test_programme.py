"""Which steps of a migration programme are done, and which is next."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask

from migration_service.blueprints.console.access import keep_session
from migration_service.blueprints.console.programme import Progress, list_steps
from migration_service.services.access.operator_sessions import ActiveSession
from migration_service.services.access.operators import AuthenticatedOperator, OperatorRole
from migration_service.states import BatchMode, ImportState, WaveState

_LEAD = AuthenticatedOperator(id=1, name="lead", role=OperatorRole.OPERATE, organisation_ids=None)
_ENDED: Any = {mode: (uuid4(), None) for mode in BatchMode}
_NONE: Any = dict.fromkeys(ImportState, 0)
_STAGED = {"counts": _NONE | {"PENDING": 3}}
_SOME = {"counts": _NONE | {"PENDING": 1, "IMPORTED": 2}}
_ALL = {"counts": _NONE | {"IMPORTED": 3}}
_RUN = {"is_over": True, "state": WaveState.CLEAN, "existing": 2}
_ON = {"is_over": False, "state": WaveState.RUNNING, "existing": 0}
_STOPPED = {"is_over": True, "state": WaveState.STOPPED, "existing": 0}
#: How the states are written here.
_LETTERS = {
    "done": "d",
    "nothing to do": "-",
    "not recorded": "?",
    "not done": "o",
    "next": "n",
    "later": "l",
}


@pytest.mark.parametrize(
    ("known", "verdict", "waves", "states"),
    [
        ({}, {}, [], "nlllllllllll"),
        ({}, {"is_clean": True}, [], "nlllllllllll"),
        ({"newest": _ENDED, "failed_in_rehearsal": 0}, {}, [], "dd-nllllllll"),
        (_STAGED, {"open": 3, "staged": 3}, [], "?o?dnll--lll"),
        (_STAGED, {"open": 4, "staged": 3}, [], "?o?dnlllllll"),
        (_STAGED, {"open": 3, "staged": 3}, [_ON], "?o?ddnl--lll"),
        (_SOME, {"open": 1, "staged": 1}, [_RUN], "?o?dddn--lll"),
        (_SOME, {"open": 1, "staged": 1}, [_RUN, _ON], "?o?dddn--lll"),
        (_SOME, {"open": 1, "staged": 1}, [_RUN, _STOPPED], "?o?dddn--lll"),
        (_SOME, {"open": 1, "staged": 1}, [_STOPPED, _STOPPED], "?o?dnll--lll"),
        (_ALL, {"is_clean": True}, [_RUN, _RUN | {"existing": 1}], "?o?dddd--dnl"),
        (_ALL, {"is_clean": True}, [_RUN], "?o?ddd-d-dnl"),
        (_ALL, {"is_clean": True, "acknowledged": 1}, [], "?o?d----ddnl"),
        (_ALL | {"is_live": True}, {"is_clean": True}, [], "?o?d-----ddn"),
        (_ALL | {"is_live": True, "is_closed": True}, {"is_clean": False}, [], "?o?d-----odd"),
    ],
)
def test_which_steps_are_done_and_which_is_next(
    console_app: Flask, known: dict[str, Any], verdict: dict[str, Any], waves: list[Any], states: str
) -> None:
    sent = SimpleNamespace(**{"open": 0, "staged": 0, "acknowledged": 0} | verdict)
    reports = [SimpleNamespace(decided_at=None, decided_by=None, **it) for it in waves]
    plan = SimpleNamespace(plan_id=uuid4(), created_at=None, finished_at=None, waves=reports)
    values: dict[str, Any] = {
        **{"code": "A", "newest": {}, "failed_in_rehearsal": None, "counts": _NONE, "plan": plan},
        **{"verdict": SimpleNamespace(sent=sent, compared_at=None, is_clean=verdict.get("is_clean", False))},
        **{"live_at": None, "live_by": None, "is_live": False, "is_closed": False},
    }
    with console_app.extensions["migration_service_console"].test_request_context("/"):
        keep_session("token", ActiveSession(uuid4(), _LEAD))
        steps = list_steps(Progress(**values | known))
    assert "".join(_LETTERS[it.state] for it in steps) == states
