"""What each removal takes, to the microsecond, and what it leaves. Each takes one piece at once."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import delete, null, select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service import models
from migration_service.config import Settings
from migration_service.schemas.events import EventType
from migration_service.services.access.operator_sessions import remove_old_operator_sessions
from migration_service.services.access.sessions import remove_old_sessions
from migration_service.services.accounts.erasure import remove_staged_again
from migration_service.services.idempotency.keys import remove_old_keys
from migration_service.services.reporting import retention
from migration_service.services.reporting.retention import (
    PIECE,
    cancel_idle_batches,
    removals,
    remove_batch_lines,
    remove_error_texts,
    remove_old_events,
    remove_old_figures,
    remove_payloads,
    remove_staged,
)
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.services.webhooks.deliveries import remove_old_deliveries
from support import rows
from support.interleavings import COMMIT, Script, Step, explore

#: Ages of what is kept and of what is removed, if it is kept for so many days.
_DAYS = 7
_KEPT, _OLD = timedelta(days=_DAYS), timedelta(days=_DAYS, microseconds=1)


def test_each_setting_has_its_own_removal(settings: Settings) -> None:
    days = {
        "batch_idle_days": 1,
        "batch_retention_days": 2,
        "payload_retention_days": 3,
        "staged_retention_days": 4,
        "error_retention_days": 5,
    }
    of_events = {"event_retention_days": 6, "event_consumer_days": 7}
    found = removals(replace(settings, **days, **of_events))  # type: ignore[arg-type]
    by_days = [
        *((cancel_idle_batches, 1), (remove_batch_lines, 2), (remove_payloads, 3), (remove_old_figures, 3)),
        *((remove_staged, 4), (remove_error_texts, 5)),
    ]
    always = [
        (remove_old_events, {"after_days": 6, "consumer_days": 7, "limit": PIECE}),
        (remove_staged_again, {"limit": PIECE}),
        (remove_old_sessions, {"limit": PIECE}),
        (remove_old_keys, {}),
        (remove_old_operator_sessions, {}),
        (remove_old_deliveries, {"limit": PIECE}),
    ]
    wanted = [*((it, {"after_days": number}) for it, number in by_days), *always]
    assert [_parts(it) for it in found] == wanted
    none = removals(replace(settings, **dict.fromkeys(days, 0), **of_events))  # type: ignore[arg-type]
    assert [_parts(it) for it in none] == always


def _parts(removal: Callable[..., int]) -> tuple[Any, dict[str, Any]]:
    return (removal.func, removal.keywords) if isinstance(removal, partial) else (removal, {})


def test_batches_that_nobody_works_on_are_cancelled(session: Session, known: KnownSupplier) -> None:
    now = rows.read_now(session)

    def make(state: str, *worked: timedelta, age: timedelta = _OLD, **values: Any) -> models.Batch:
        given = {"mode": "import", "state": state, "reason": "too_many_errors", "created_at": now - age}
        batch = rows.make_batch(session, known, **given | values)
        for line, ago in enumerate(worked, 1):
            rows.add_chunk(session, batch, line, worked_at=now - ago)
        return batch

    cancelled = [
        make("PAUSED"),
        make("WAITING"),
        make("PAUSED", _OLD, 2 * _OLD, age=3 * _OLD),
        make("PAUSED"),
    ]
    rows.make_plan(session, known, cancelled[-1], finished_at=now)
    kept = [
        make("RUNNING"),
        make("PAUSED", age=_KEPT),
        make("PAUSED", 2 * _OLD, _KEPT, age=3 * _OLD),
        make("STOPPED", finished_at=now - _OLD),
        make("PAUSED"),
    ]
    rows.make_plan(session, known, kept[-1])
    states = [it.state for it in kept]
    assert cancel_idle_batches(session, after_days=_DAYS) == len(cancelled)
    session.expire_all()
    assert [(it.state, it.reason, it.finished_at) for it in cancelled] == [("CANCELLED", None, now)] * 4
    assert [(it.state, it.reason) for it in kept] == [(it, "too_many_errors") for it in states]
    assert cancel_idle_batches(session, after_days=_DAYS) == 0
    told = [it.data for it in session.scalars(select(models.Event).filter_by(type=EventType.BATCH_ENDED))]
    noted = [
        it.subject for it in session.scalars(select(models.AuditEntry).filter_by(action="batch.cancelled"))
    ]
    ids = sorted(str(it.id) for it in cancelled)
    assert (sorted(it["batch_id"] for it in told), sorted(map(str, noted))) == (ids, ids)


def test_lines_of_batches_that_have_ended_are_removed(
    session: Session, known: KnownSupplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = rows.read_now(session)
    old, empty, kept, kept_empty, running = (
        rows.make_batch(session, known, finished_at=finished)
        for finished in (now - _OLD, now - _OLD, now - _KEPT, now - _KEPT, None)
    )
    # A later line has the number of the second one, which is no longer open.
    rows.make_line(session, old, 3, None, "PENDING")
    for batch in (old, kept, running):
        for line in (1, 2):
            rows.make_line(session, batch, line, f"{line + (batch is not old)}", "FAILED")

    def left() -> list[Any]:
        session.expire_all()
        return [it.lines_removed_at for it in (old, empty, kept, kept_empty, running)]

    for size, removed in ((2, 2), (3, 1)):
        assert left() == [None] * 5  # there may be more
        monkeypatch.setattr(retention, "PIECE", size)
        assert remove_batch_lines(session, after_days=_DAYS) == removed
    assert left() == [now, now, None, None, None]
    assert (old.removed_refused, old.removed_waiting) == (1, 1)
    lines = session.query(models.BatchLine.batch_id).order_by(models.BatchLine.batch_id).all()
    assert [it.batch_id for it in lines] == [kept.id, kept.id, running.id, running.id]
    earlier = now - timedelta(days=1)
    old.lines_removed_at = empty.lines_removed_at = earlier
    rows.make_line(session, old, 4, "3", "VALID")
    assert remove_batch_lines(session, after_days=_DAYS) == 0
    assert left() == [earlier, earlier, None, None, None]


def test_lines_are_removed_behind_more_batches_without_lines_than_are_counted_at_once(
    session: Session, known: KnownSupplier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_COUNTED", 1)
    ended = rows.read_now(session) - _OLD
    *_, last = (rows.make_batch(session, known, finished_at=ended) for _ in range(3))
    rows.make_line(session, last, 1, "1", "FAILED")
    while remove_batch_lines(session, after_days=_DAYS):
        pass
    session.expire_all()
    assert last.lines_removed_at is not None


def test_payloads_of_created_accounts_are_removed(session: Session, known: KnownSupplier) -> None:
    now = rows.read_now(session)
    for number, state, age in (
        ("old", "IMPORTED", _OLD),
        ("kept", "IMPORTED", _KEPT),
        ("pending", "PENDING", _OLD),
    ):
        rows.make_process(session, known, number, state=state, account_created_at=now - age, warnings=["x"])
    without = {"payload": null(), "warnings": ["x"], "account_created_at": now - _OLD}
    rows.make_process(session, known, "without", **without)
    rows.make_process(session, known, "refused", **without, refused_payload={"x": 1})
    assert remove_payloads(session, after_days=_DAYS) == 2
    session.expire_all()
    found = session.query(models.AccountImportProcess).order_by(
        models.AccountImportProcess.external_account_number
    )
    assert all(it.refused_payload is None for it in found)
    assert [(it.external_account_number, it.payload, it.warnings) for it in found] == [
        ("kept", {}, ["x"]),
        ("old", None, None),
        ("pending", {}, ["x"]),
        ("refused", None, None),
        ("without", None, ["x"]),
    ]


def test_accounts_that_were_never_created_are_removed(session: Session, known: KnownSupplier) -> None:
    now = rows.read_now(session)
    for number, state, age in (
        ("1", "PENDING", _OLD),
        ("2", "SKIPPED", _OLD),
        ("3", "SKIPPED", _OLD),
        ("4", "PENDING", _KEPT),
        ("5", "SKIPPED", _KEPT),
        ("6", "IMPORTED", _OLD),
        ("7", "IN_PROGRESS", _OLD),
    ):
        process = rows.make_process(session, known, number, state=state, staged_at=now - age)
        rows.make_attempt(session, known, process)
    mark = models.SkipMark(import_supplier_id=known.id, external_account_number="3", erased_at=now)
    rows.add(session, mark)
    assert remove_staged(session, after_days=_DAYS) == 3
    left = session.scalars(select(models.AccountImportProcess.external_account_number))
    assert sorted(left) == ["4", "5", "6", "7"]
    assert session.query(models.Attempt).count() == 4
    session.expire_all()
    marks = session.query(models.SkipMark).order_by(models.SkipMark.external_account_number)
    found = [(it.import_supplier_id, it.external_account_number, it.erased_at) for it in marks]
    assert found == [(known.id, "2", None), (known.id, "3", now)]
    assert remove_staged(session, after_days=_DAYS) == 0


def test_texts_of_errors_are_removed(session: Session, known: KnownSupplier) -> None:
    now = rows.read_now(session)
    process = rows.make_process(session, known, "1")
    ended = {"outcome": "FAILED", "error_code": "broken"}
    old = [
        rows.make_attempt(session, known, process, finished_at=now - _OLD, **ended, **texts)
        for texts in ({"errors": ["x"]}, {"errors": null(), "error_detail": "x"})
    ]
    texts = {"errors": ["x"], "error_detail": "x"}
    kept = rows.make_attempt(session, known, process, finished_at=now - _KEPT, **ended, **texts)
    rows.make_attempt(session, known, process, finished_at=now - _OLD, **ended, errors=null())
    emails = _make_emails(session, process, [(_OLD, "x"), (_KEPT, "x"), (_OLD, None)])
    for event, state, age in (
        ("told", "SENT", _OLD),
        ("new", "SENT", _KEPT),
        ("refused", "REFUSED", _OLD),
        ("waits", "PENDING", _OLD),
    ):
        sent_at = now - age if state == "SENT" else None
        texts = {"event": event, "recipient": "ada@x.example", "subject": "s", "body": "b"}
        rows.add(session, models.AlertEmail(**texts, state=state, created_at=now - age, sent_at=sent_at))
    assert remove_error_texts(session, after_days=_DAYS) == 2
    assert set(session.scalars(select(models.AlertEmail.event))) == {"new", "waits"}
    session.expire_all()
    found = [(it.errors, it.error_detail, it.error_code) for it in (*old, kept)]
    assert found == [(None, None, "broken"), (None, None, "broken"), (["x"], "x", "broken")]
    assert [it.error for it in emails] == [None, "x", None]
    assert remove_error_texts(session, after_days=_DAYS) == 0


def _make_emails(
    session: Session, process: models.AccountImportProcess, texts: list[tuple[timedelta, str | None]]
) -> list[models.CustomerEmail]:
    account = rows.make_account(session, process)
    now = rows.read_now(session)
    made = []
    for position, (age, error) in enumerate(texts):
        customer = rows.add(session, models.Customer(account_pk=account.id, position=position))
        made.append(
            rows.add(
                session,
                models.CustomerEmail(
                    organisation_id=1,
                    import_supplier_id=1,
                    customer_pk=customer.id,
                    created_at=now - age,
                    error=error,
                ),
            )
        )
    return made


_IN_PIECES = [cancel_idle_batches, remove_payloads, remove_staged, remove_error_texts]


def _make_three_of_each(session: Session, known: KnownSupplier) -> None:
    ago = datetime(2020, 1, 1, tzinfo=UTC)
    for number in "123":
        rows.make_batch(session, known, state="PAUSED", created_at=ago)
        process = rows.make_process(session, known, number, account_created_at=ago)
        rows.make_process(session, known, f"{number} staged", state="PENDING", staged_at=ago)
        ended = {"finished_at": ago, "outcome": "FAILED", "errors": ["x"]}
        rows.make_attempt(session, known, process, **ended)
        for email in _make_emails(session, process, [(timedelta(), "x")]):
            email.created_at = ago
    session.flush()


def test_two_removals_of_the_same_piece_do_not_say_that_no_lines_are_left(
    sessions: sessionmaker[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    with sessions.begin() as session:
        known = rows.make_supplier(session, "MINE")
    monkeypatch.setattr(retention, "PIECE", 1)
    remove: list[Step] = [("remove", partial(remove_batch_lines, after_days=_DAYS)), COMMIT]

    def script() -> Script:
        with sessions.begin() as session:
            batch = rows.make_batch(session, known, finished_at=rows.read_now(session) - _OLD)
            for line in (1, 2):
                rows.make_line(session, batch, line, str(line), "VALID")
        run = yield {"one": remove, "two": remove}
        removed = [run.results[f"{name}.remove"] for name in ("one", "two")]
        assert removed == [1, 1]
        with sessions.begin() as session:
            assert session.get_one(models.Batch, batch.id).lines_removed_at is None
            session.execute(delete(models.BatchLine))

    assert explore(sessions, script, alike=("one", "two")) == 2


@pytest.mark.parametrize("remove", _IN_PIECES)
def test_one_piece_is_removed_at_once(
    session: Session, known: KnownSupplier, monkeypatch: pytest.MonkeyPatch, remove: Callable[..., int]
) -> None:
    _make_three_of_each(session, known)
    monkeypatch.setattr(retention, "PIECE", 2)
    assert [remove(session, after_days=_DAYS) for _ in range(3)] == [2, 1, 0]
    left = session.query(models.CustomerEmail).where(models.CustomerEmail.error.is_not(None)).count()
    assert left == (0 if remove is remove_error_texts else 3)


def test_what_somebody_else_has_locked_is_left_for_later(sessions: sessionmaker[Session]) -> None:
    with sessions.begin() as session:
        _make_three_of_each(session, rows.make_supplier(session, "MINE"))
    with sessions() as holder, sessions() as session:
        for model in (models.Batch, models.AccountImportProcess, models.CustomerEmail):
            assert len(holder.scalars(select(model).with_for_update()).all()) >= 3
        locked = holder.scalars(select(models.Attempt).limit(2).with_for_update()).all()
        session.execute(text("SET LOCAL lock_timeout = '50ms'"))
        found = [remove(session, after_days=_DAYS) for remove in _IN_PIECES]
    assert (found, len(locked)) == ([0, 0, 0, 1], 2)
