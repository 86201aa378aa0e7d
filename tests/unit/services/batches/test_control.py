"""What is reported of a batch, and what people do with it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from migration_service.errors import BatchStateError
from migration_service.models import Batch
from migration_service.services.batches.control import (
    cancel_batch,
    pause_batch,
    report_batch,
    resume_batch,
)
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import BatchCondition, LineStatus
from support.audit import list_entries
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk, make_batch


def test_a_report_has_everything_that_is_known_of_a_batch(session: Session, customer: Customer) -> None:
    now = session.scalars(select(func.now())).one()
    team = get_operations_team_id(session, customer.organisation_id, customer.operations_team)
    stored: dict[str, Any] = {
        "name": "a name",
        "file_name": "a file",
        "file_bytes": 12,
        "kind": "transactions",
        "mode": "import",
        "options": {"check_previously_added": False},
        "profile": "strict",
        "source": "upload",
        "state": "RUNNING",
        "reason": "known",
        "created_at": now - timedelta(minutes=3),
        "started_at": now - timedelta(seconds=7.3),
        "lines": 40,
    }
    brake = {"stop_after_errors": "9", "stop_ignore_codes": []}
    sha256 = bytes(range(32))
    batch = make_batch(session, customer, operations_team_id=team, brake=brake, file_sha256=sha256, **stored)
    worked: dict[str, Any] = {"finished_at": now, "worked_at": now, "worked": 25, "done": 25}
    add_chunk(
        session,
        batch,
        counts={"ADDED": 23, "FAILED": 2},
        failures={"required": 2},
        error_counts={"required": 2},
        warning_counts={"already_added": 1},
        state="DONE",
        **worked,
    )
    add_chunk(session, batch, 10, counts={"PENDING": 7, "DEFERRED": 3})
    report = report_batch(session, batch)
    assert {name: getattr(report, name) for name in stored} == stored
    assert (report.batch_id, report.import_supplier) == (batch.id, customer.import_supplier)
    assert (report.operations_team_name, report.file_sha256) == (customer.operations_team, sha256.hex())
    assert report.counts == dict.fromkeys(LineStatus, 0) | {
        "ADDED": 23,
        "FAILED": 2,
        "PENDING": 7,
        "DEFERRED": 3,
    }
    assert (report.error_counts, report.warning_counts) == ({"required": 2}, {"already_added": 1})
    assert (report.rate, report.time_left, report.condition) == (None, None, None)
    assert (report.finished_at, report.lines_removed_at) == (None, None)
    rest: dict[str, Any] = {"stop_min_lines": None, "stop_window_lines": None, "stop_count_warnings": []}
    assert report.brake == brake | rest | {"lines": 25, "errors": 2, "codes": {"required": 2}}
    batch.state, batch.finished_at, batch.lines_removed_at = "CANCELLED", now, now
    session.flush()
    report = report_batch(session, batch)
    assert (report.rate, report.time_left) == (3.4, None)
    assert (report.finished_at, report.lines_removed_at) == (now, now)


@pytest.mark.parametrize(("ago", "condition"), [(1, None), (61, BatchCondition.STALLED)])
def test_a_report_has_the_time_left_as_a_range_unless_the_batch_makes_no_progress(
    session: Session, customer: Customer, *, ago: int, condition: BatchCondition | None
) -> None:
    now = session.scalars(select(func.now())).one()
    began, closes = now - timedelta(minutes=5), now + timedelta(hours=1)
    batch = make_batch(session, customer, created_at=began, started_at=began, runs_until=closes)
    for place in range(20):
        at = now - timedelta(seconds=ago + place)
        add_chunk(session, batch, place, worked=100, worked_at=at, counts={"VALID": 100})
    add_chunk(session, batch, 90, counts={"PENDING": 5_000})
    report = report_batch(session, batch)
    assert (report.condition, report.runs_until) == (condition, closes)
    assert report.rate is not None
    if condition:
        assert (report.time_left_low, report.time_left, report.time_left_high) == (None, None, None)
    else:
        assert report.time_left_low and report.time_left and report.time_left_high
        assert report.time_left_low < report.time_left < report.time_left_high


@pytest.mark.parametrize(
    ("act", "state", "target", "action"),
    [
        (pause_batch, "RUNNING", "PAUSED", "batch.paused"),
        (resume_batch, "PAUSED", "RUNNING", "batch.resumed"),
        (cancel_batch, "PAUSED", "CANCELLED", "batch.cancelled"),
    ],
)
def test_what_people_do_changes_the_state_and_is_in_the_audit(
    session: Session,
    customer: Customer,
    *,
    act: Callable[[Session, Batch], None],
    state: str,
    target: str,
    action: str,
) -> None:
    batch = make_batch(session, customer, state=state)
    bystander = make_batch(session, customer, state=state)
    act(session, batch)
    session.flush()
    session.refresh(bystander)
    assert (batch.state, bystander.state) == (target, state)
    with pytest.raises(BatchStateError):
        act(session, batch)
    (entry,) = list_entries(session, subject_kind="batch")
    expected = (action, str(batch.id), customer.organisation_id)
    assert (entry.action, entry.subject, entry.organisation_id) == expected
