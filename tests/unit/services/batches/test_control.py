"""What is reported of a batch, and what people do with it."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from migration_service.errors import BatchNotFoundError, BatchStateError, PermissionDeniedError
from migration_service.models import ApiKey, AuditEntry, Batch
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access.api_keys import issue_api_key
from migration_service.services.batches.control import (
    cancel_batch,
    get_batch,
    get_batch_to_reconcile,
    get_batch_with_lines,
    pause_batch,
    report_batch,
    resume_batch,
)
from migration_service.services.setup.suppliers import create_import_supplier
from migration_service.services.setup.teams import get_operations_team_id
from migration_service.states import BatchCondition, LineStatus
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk, make_batch
from unit.services.undo.undo_rows import MOMENT, add_undo, find_supplier


def test_a_batch_is_found_by_its_id_by_those_who_may_see_it(
    session: Session, customer: Customer, other: Customer
) -> None:
    batch, mine = make_batch(session, customer), customer.organisation_id
    for organisation_id in (mine, None):
        assert get_batch(session, str(batch.id), organisation_id=organisation_id) is batch
    for name, organisation_id in (
        (str(batch.id), other.organisation_id),
        (str(uuid4()), mine),
        ("no id", mine),
    ):
        with pytest.raises(BatchNotFoundError, match=f"Batch '{name}' does not exist"):
            get_batch(session, name, organisation_id=organisation_id)
    origin = Origin(kind=ActorKind.API_KEY, import_supplier_ids=frozenset({batch.import_supplier_id + 1}))
    with acting_as(origin):
        assert get_batch(session, str(batch.id), organisation_id=None) is batch
        with pytest.raises(PermissionDeniedError):
            get_batch(session, str(batch.id), organisation_id=mine)


def test_a_batch_is_read_again(session: Session, customer: Customer) -> None:
    batch = make_batch(session, customer)
    without = update(Batch).values(name="new").execution_options(synchronize_session=False)
    session.execute(without)
    assert get_batch(session, str(batch.id), organisation_id=None).name == "new"


def test_lines_that_are_no_longer_kept_cannot_be_read_or_compared(
    session: Session, customer: Customer, other: Customer
) -> None:
    kept = make_batch(session, customer)
    removed = make_batch(session, customer, lines_removed_at=MOMENT)
    supplier = find_supplier(session, customer)
    organisation_id = customer.organisation_id
    assert get_batch_with_lines(session, str(kept.id), organisation_id=organisation_id) is kept
    assert get_batch_to_reconcile(session, str(kept.id), supplier) == kept.id
    assert get_batch_to_reconcile(session, None, supplier) is None
    for read in (
        lambda: get_batch_with_lines(session, str(removed.id), organisation_id=organisation_id),
        lambda: get_batch_to_reconcile(session, str(removed.id), supplier),
    ):
        with pytest.raises(BatchStateError, match=r"^The lines of the batch are not kept any more.$"):
            read()
    with pytest.raises(BatchNotFoundError):
        get_batch_with_lines(session, str(kept.id), organisation_id=other.organisation_id)
    another = create_import_supplier(
        session, code=f"{supplier.code}_2", organisation_name=customer.organisation
    )
    kept.import_supplier_id = another.id
    session.flush()
    with pytest.raises(BatchNotFoundError, match=f"Batch '{kept.id}' does not exist"):
        get_batch_to_reconcile(session, str(kept.id), supplier)


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


def test_a_report_of_a_batch_that_has_done_nothing(session: Session, customer: Customer) -> None:
    report = report_batch(session, make_batch(session, customer))
    assert (report.operations_team_name, report.brake, report.condition) == (None, None, None)
    assert (report.rate, report.time_left, report.error_counts) == (None, None, {})
    assert report.counts == dict.fromkeys(LineStatus, 0)


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
    assert _acts(session) == [(action, str(batch.id), customer.organisation_id)]


def _acts(session: Session) -> list[tuple[str, str | None, int | None]]:
    session.flush()
    entries = select(AuditEntry).where(AuditEntry.subject_kind == "batch").order_by(AuditEntry.id)
    return [(it.action, it.subject, it.organisation_id) for it in session.scalars(entries)]


def test_a_batch_is_not_resumed_while_its_accounts_are_being_undone(
    session: Session, customer: Customer
) -> None:
    batch = make_batch(session, customer, state="PAUSED")
    add_undo(session, customer, batch_id=batch.id)
    with pytest.raises(BatchStateError):
        resume_batch(session, batch)
    assert (batch.state, _acts(session)) == ("PAUSED", [])


@pytest.mark.parametrize("is_revoked", [True, False])
def test_who_resumes_the_batch_of_a_revoked_key_takes_it_over(
    session: Session, customer: Customer, *, is_revoked: bool
) -> None:
    issue_api_key(session, organisation_name=customer.organisation)
    first, second = session.scalars(
        select(ApiKey).where(ApiKey.organisation_id == customer.organisation_id).order_by(ApiKey.id)
    )
    first.revoked_at = datetime.fromisoformat("2026-03-02T12:00:00Z") if is_revoked else None
    batch = make_batch(session, customer, state="PAUSED", api_key_id=first.id)
    with acting_as(Origin(kind=ActorKind.API_KEY, api_key_id=second.id)):
        resume_batch(session, batch)
    assert batch.api_key_id == (second.id if is_revoked else first.id)
    taken_over = ["batch.taken_over"] if is_revoked else []
    assert [action for action, *_ in _acts(session)] == [*taken_over, "batch.resumed"]
