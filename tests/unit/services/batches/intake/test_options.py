"""What a batch may be asked to do, and when two requests ask for the same."""

from typing import Any

import pytest
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.profile import Profile
from migration_service.db.base import new_id
from migration_service.errors import RequestFailedValidationError
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.batches.error_thresholds import ErrorThreshold
from migration_service.services.batches.intake.options import BatchOrder, record_order
from migration_service.states import BatchKind, BatchMode, BatchSource
from support.audit import audited
from support.factories import make_customer

_IMPORT: dict[str, Any] = {"mode": BatchMode.IMPORT, "operations_team_name": "T"}
_NOTES: dict[str, Any] = {"mode": BatchMode.IMPORT, "kind": BatchKind.NOTES}
_TRANSACTIONS: dict[str, Any] = {"mode": BatchMode.IMPORT, "kind": BatchKind.TRANSACTIONS}


@pytest.mark.parametrize(
    ("parts", "errors"),
    [
        ({"mode": BatchMode.IMPORT}, [("required", "operations_team_name")]),
        ({"mode": BatchMode.DRY_RUN}, [("required", "operations_team_name")]),
        ({"mode": BatchMode.VALIDATE, "source": BatchSource.PENDING}, [("invalid_choice", "mode")]),
        ({"mode": BatchMode.STAGE, "source": BatchSource.PENDING}, [("invalid_choice", "mode")]),
        (_IMPORT | {"idempotency_key": "\n"}, [("idempotency_key_invalid", "Idempotency-Key")]),
        (_NOTES | {"mode": BatchMode.STAGE}, [("invalid_choice", "mode")]),
        (_NOTES | {"source": BatchSource.PENDING}, [("invalid_choice", "source")]),
        (_NOTES | {"operations_team_name": "T"}, [("invalid", "operations_team_name")]),
        (_NOTES | {"options": {"a": True, "b": True}}, [("invalid", "a"), ("invalid", "b")]),
        (_IMPORT | {"options": {"a": True}}, [("invalid", "a")]),
        (
            {
                "mode": BatchMode.STAGE,
                "kind": BatchKind.STATEMENTS,
                "source": BatchSource.PENDING,
                "operations_team_name": "T",
            },
            [
                ("invalid_choice", "mode"),
                ("invalid_choice", "source"),
                ("invalid", "operations_team_name"),
                ("invalid_choice", "mode"),
            ],
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(
    parts: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    with pytest.raises(RequestFailedValidationError) as refused:
        BatchOrder(**parts)
    assert [(item.code, item.attr) for item in refused.value.errors] == errors


def test_a_retry_asks_for_the_same_unless_a_part_of_its_work_differs() -> None:
    unlike = [
        BatchOrder(**_IMPORT).identify("S"),
        BatchOrder(**_IMPORT).identify("R"),
        BatchOrder(**_IMPORT | {"mode": BatchMode.DRY_RUN}).identify("S"),
        BatchOrder(**_IMPORT | {"operations_team_name": "U"}).identify("S"),
        BatchOrder(**_IMPORT, source=BatchSource.PENDING).identify("S"),
        BatchOrder(**_IMPORT, profile=Profile.STRICT).identify("S"),
        BatchOrder(**_IMPORT, profile=Profile.LENIENT).identify("S"),
        BatchOrder(**_IMPORT, error_threshold=ErrorThreshold(stop_after_errors="5")).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, control_totals={"accounts": 1}).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, control_totals={"accounts": 2}).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, kind=BatchKind.NOTES).identify("S"),
        BatchOrder(mode=BatchMode.VALIDATE, kind=BatchKind.TRANSACTIONS).identify("S"),
        BatchOrder(**_TRANSACTIONS, options={"a": True}).identify("S"),
        BatchOrder(**_TRANSACTIONS, options={"a": False}).identify("S"),
    ]
    assert len(set(unlike)) == len(unlike)
    assert BatchOrder(**_IMPORT, name="n", file_name="f", idempotency_key="k").identify("S") == unlike[0]


@pytest.mark.parametrize("kind", ActorKind)
@pytest.mark.parametrize("wave", [None, [1]])
def test_the_audit_has_the_batches_that_persons_start(
    sessions: sessionmaker[Session], kind: ActorKind, wave: list[int] | None
) -> None:
    batch_id, organisation_id = new_id(), make_customer(sessions).organisation_id
    order = BatchOrder(mode=BatchMode.IMPORT, kind=BatchKind.NOTES, wave_processes=wave)
    with sessions.begin() as session, acting_as(Origin(kind=kind, actor="somebody")):
        record_order(session, order, batch_id, organisation_id)
    found = audited(sessions, action="batch.ordered")
    is_person = kind in (ActorKind.OPERATOR, ActorKind.SYSTEM_USER)
    expected = [("batch", str(batch_id), organisation_id, {"mode": "import", "kind": "notes"})]
    assert [(it.subject_kind, it.subject, it.organisation_id, it.details) for it in found] == (
        expected if is_person and wave is None else []
    )
