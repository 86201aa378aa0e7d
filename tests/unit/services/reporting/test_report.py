"""What a report is about, its parts, and how much was done in each part of the time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.db.base import new_id
from migration_service.errors import (
    BatchNotFoundError,
    ImportSupplierNotFoundError,
    WaveNotFoundError,
    WavePlanNotFoundError,
)
from migration_service.models import ApiKey, AuditEntry, Batch, ImportSupplier, Undo, UndoLine, WavePlan
from migration_service.services.reporting import report as report_module
from migration_service.services.reporting.report import Decision, FailedCode, Report, Versions, make_report
from migration_service.services.reporting.report_rates import Rates, read_rates
from migration_service.services.reporting.report_subject import ReportKind, ReportSubject, find_subject
from migration_service.services.setup.suppliers import KnownSupplier
from support import rows


@pytest.fixture
def waves(session: Session, known: KnownSupplier, other: KnownSupplier) -> tuple[WavePlan, list[Batch]]:
    """Insert a plan with two waves, and return it with three batches: theirs, and one that is in no wave."""
    batches = [rows.make_batch(session, known, mode="import", source="pending") for _ in range(3)]
    rows.make_plan(session, other, rows.make_batch(session, other))
    return rows.make_plan(session, known, *batches[:2]), batches


def test_a_report_is_about_a_supplier_a_batch_a_plan_or_a_wave(
    session: Session, known: KnownSupplier, waves: tuple[WavePlan, list[Batch]]
) -> None:
    plan, (first, second, single) = waves
    whole = ReportSubject(ReportKind.SUPPLIER, known)
    batch = ReportSubject(ReportKind.BATCH, known, (single.id,))
    of_wave = ReportSubject(ReportKind.BATCH, known, (second.id,), plan.id, 2)
    both = ReportSubject(ReportKind.PLAN, known, (first.id, second.id), plan.id)
    wave = ReportSubject(ReportKind.WAVE, known, (second.id,), plan.id, 2)
    for target, subject, batch_id in (
        ("MINE", whole, None),
        (str(single.id), batch, single.id),
        (str(second.id), of_wave, second.id),
        (str(plan.id), both, None),
    ):
        for organisation_id in (known.organisation_id, None):
            assert find_subject(session, target, organisation_id=organisation_id) == subject
        assert subject.batch_id == batch_id
    assert find_subject(session, str(plan.id), organisation_id=known.organisation_id, wave=2) == wave
    assert wave.batch_id == second.id
    assert whole.values() == {"import_supplier_id": known.id, "batch_ids": None, "plan_id": None}
    batch_ids = [first.id, second.id]
    assert both.values() == {"import_supplier_id": known.id, "batch_ids": batch_ids, "plan_id": plan.id}


@pytest.mark.parametrize("target", ["nobody", "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90", "\0", "x" * 1_000, ""])
def test_what_is_neither_a_supplier_nor_a_batch_is_not_found(session: Session, target: str) -> None:
    with pytest.raises(ImportSupplierNotFoundError):
        find_subject(session, target, organisation_id=None)


def test_a_report_of_one_kind_is_not_of_another(
    session: Session, known: KnownSupplier, waves: tuple[WavePlan, list[Batch]]
) -> None:
    plan, (*_, single) = waves
    for key in (single.id, plan.id):  # a supplier that is called like a batch or a plan
        rows.add(
            session, ImportSupplier(organisation_id=known.organisation_id, code=str(key), document_root="")
        )
    for key, kind in ((single.id, ReportKind.BATCH), (plan.id, ReportKind.PLAN)):
        for wanted in (kind, ReportKind.SUPPLIER):
            found = find_subject(session, str(key), organisation_id=None, kind=wanted)
            assert found.kind is wanted
    for target, kind, error in (
        ("MINE", ReportKind.BATCH, BatchNotFoundError),
        ("MINE", ReportKind.PLAN, WavePlanNotFoundError),
        (str(new_id()), ReportKind.SUPPLIER, ImportSupplierNotFoundError),
    ):
        with pytest.raises(error):
            find_subject(session, target, organisation_id=None, kind=kind)


def test_what_is_not_of_the_organisation_is_not_found(
    session: Session, other: KnownSupplier, waves: tuple[WavePlan, list[Batch]]
) -> None:
    plan, (first, *_) = waves
    for target in ("MINE", str(first.id), str(plan.id), "nobody"):
        with pytest.raises(ImportSupplierNotFoundError) as refused:
            find_subject(session, target, organisation_id=other.organisation_id)
        assert target in str(refused.value.detail)
    with pytest.raises(WavePlanNotFoundError):
        find_subject(session, str(plan.id), organisation_id=other.organisation_id, wave=1)
    with pytest.raises(WavePlanNotFoundError):
        find_subject(session, str(first.id), organisation_id=None, wave=1)
    with pytest.raises(WaveNotFoundError) as missing:
        find_subject(session, str(plan.id), organisation_id=None, wave=3)
    assert "3" in str(missing.value.detail)


#: Makes the report about a supplier, a batch or a plan.
MakeReport = Callable[[object], Report]


@pytest.fixture
def report(session: Session, within: sessionmaker[Session]) -> MakeReport:
    return lambda target: make_report(within, find_subject(session, str(target), organisation_id=None))


def _examples(batch: Batch, *places: tuple[int, str | None]) -> list[tuple[str, int, str | None]]:
    return [(str(batch.id), line, path) for line, path in places]


def _fail(session: Session, batch: Batch, line: int, number: str | None, *errors: tuple[str, Any]) -> None:
    told = [{"code": code, "detail": "", "attr": path} for code, path in errors]
    rows.make_line(session, batch, line, number, "FAILED", errors=told)


@pytest.fixture
def failures(session: Session, known: KnownSupplier, other: KnownSupplier) -> list[Batch]:
    """Insert two batches, and lines of others that do not count. The first number is on the last line."""
    first, second = (rows.make_batch(session, known, lines=9) for _ in range(2))
    for line in range(5, 0, -1):
        _fail(session, first, line, f"{9 - line}", ("very_often", f"a.{line}"))
    _fail(session, second, 1, "c", ("very_often", "a.6"), ("very_often", "b.6"))
    _fail(session, second, 2, "b", ("unknown_field", "a.b.name"), ("twice", None))
    _fail(session, second, 3, "a", ("unknown_field", "name"), ("twice", ""))
    rows.make_line(session, second, 4, "9", "VALID", "very_often")
    _fail(session, rows.make_batch(session, other), 1, "1", ("foreign", None))
    for batch, errors in ((first, {"very_often": 5}), (second, {"very_often": 1})):
        rows.add_chunk(session, batch, error_counts=errors)
    return [first, second]


def test_codes_of_a_batch_have_the_first_lines_as_examples(report: MakeReport, failures: list[Batch]) -> None:
    first, second = failures
    assert report(first.id).failed == [
        FailedCode("very_often", 5, _examples(first, (1, "a.1"), (2, "a.2"), (3, "a.3")))
    ]
    found = report(second.id).failed
    assert [(it.code, it.lines) for it in found] == [("twice", 2), ("unknown_field", 2), ("very_often", 1)]
    assert found[0].examples == _examples(second, (2, None), (3, ""))
    assert found[1].examples == _examples(second, (2, "a.b"), (3, None))
    assert sorted(found[2].examples) == _examples(second, (1, "a.6"), (1, "b.6"))


def test_codes_of_a_plan_are_those_of_its_waves(
    session: Session, report: MakeReport, known: KnownSupplier, failures: list[Batch]
) -> None:
    first, second = failures
    _fail(session, rows.make_batch(session, known), 1, "1", ("twice", None))
    found = report(rows.make_plan(session, known, first, second).id).failed
    assert [(it.code, it.lines) for it in found] == [("very_often", 6), ("twice", 2), ("unknown_field", 2)]
    assert {batch for batch, _, _ in found[0].examples} == {str(first.id)}
    assert {batch for batch, _, _ in found[1].examples} == {str(second.id)}


def test_codes_of_a_supplier_are_those_of_what_is_refused_now(
    session: Session, report: MakeReport, known: KnownSupplier, failures: list[Batch]
) -> None:
    first, second = failures
    rows.make_process(session, known, "8", state="PENDING")  # the account of line 1
    expected = [
        FailedCode("very_often", 5, _examples(first, (2, "a.2"), (3, "a.3"), (4, "a.4"))),
        FailedCode("twice", 2, _examples(second, (2, None), (3, ""))),
        FailedCode("unknown_field", 2, _examples(second, (2, "a.b"), (3, None))),
    ]
    assert report("MINE").failed == expected
    with patch.object(report_module, "MOST_CODES", 1):
        assert report("MINE").failed == expected[:1]
        assert [it.code for it in report(second.id).failed] == ["twice"]


def test_undos_are_those_of_the_supplier_or_the_batch(
    session: Session, report: MakeReport, known: KnownSupplier, other: KnownSupplier
) -> None:
    batch = rows.make_batch(session, known)
    made: list[Any] = []
    for supplier, batch_id, outcomes in (
        (known, batch.id, ("REVERTED", "KEPT", "REVERTED", "PENDING")),
        (known, None, ()),
        (known, rows.make_batch(session, known).id, ("KEPT",)),
        (other, None, ("KEPT",)),
    ):
        values = {"reason": f"Reason {len(made)}", "overrides": ["notes"], "accounts": 7}
        undo = _make_undo(session, supplier, batch_id, **values)
        for position, outcome in enumerate(outcomes):
            keys = {"undo_id": undo.id, "position": position, "account_import_process_id": 1}
            rows.add(session, UndoLine(**keys, service_account_number="A", outcome=outcome))
        counted = outcomes.count("REVERTED"), outcomes.count("KEPT")
        made.append((undo.id, "RUNNING", undo.reason, ["notes"], undo.created_at, 7, *counted))
    first, second, third, _ = made

    def undos(target: object) -> list[Any]:
        return [tuple(it) for it in report(target).undos]

    assert undos("MINE") == [third, second, first]
    assert undos(batch.id) == [first]
    with patch.object(report_module, "MOST_UNDOS", 2):
        assert undos("MINE") == [third, second]


def _decide(session: Session, kind: str, subject: object, action: str, **values: Any) -> Decision:
    given = {"outcome": "DONE", "actor_kind": "operator", "actor": "dora", **values}
    entry = rows.add(session, AuditEntry(action=action, subject_kind=kind, subject=str(subject), **given))
    actor = entry.actor or entry.actor_kind
    return Decision(entry.at, actor, action, kind, str(subject), entry.details or {})


def _make_undo(session: Session, supplier: KnownSupplier, batch_id: UUID | None, **values: Any) -> Undo:
    keys = {"organisation_id": supplier.organisation_id, "import_supplier_id": supplier.id}
    return rows.add(session, Undo(id=new_id(), batch_id=batch_id, **keys, **{"reason": ""} | values))


def test_decisions_are_those_about_what_the_report_is_about(
    session: Session,
    report: MakeReport,
    known: KnownSupplier,
    other: KnownSupplier,
    waves: tuple[WavePlan, list[Batch]],
) -> None:
    plan, (first, second, single) = waves
    theirs = rows.make_batch(session, other)
    about_mine: list[tuple[Decision, set[object]]] = []
    named = _make_undo(session, known, None).id, _make_undo(session, known, first.id).id
    for kind, subject, action, targets in (
        ("import_supplier", "MINE", "import_supplier.live_set", ()),
        ("batch", first.id, "batch.started", (first.id, plan.id)),
        ("batch", second.id, "batch.paused", (second.id, plan.id)),
        ("batch", single.id, "batch.resumed", (single.id,)),
        ("undo", named[0], "undo.started", ()),
        ("undo", named[1], "undo.started", (first.id, plan.id)),
        ("wave_plan", plan.id, "wave_plan.created", (first.id, second.id, plan.id)),
        ("wave", f"{plan.id} 1", "wave.approved", (first.id, plan.id)),
        ("wave", f"{plan.id} 2", "wave.stopped", (second.id, plan.id)),
    ):
        details = {"reason": "x"} if kind == "batch" else None
        decision = _decide(session, kind, subject, action, details=details)
        about_mine.append((decision, {"MINE", *targets}))
    last = _decide(session, "batch", single.id, "batch.cancelled", actor=None, actor_kind="api_key")
    about_mine.append((last, {"MINE", single.id}))
    foreign = session.scalars(select(WavePlan.id).where(WavePlan.import_supplier_id == other.id)).one()
    for kind, subject, action, values in (
        ("import_supplier", "OTHER", "import_supplier.live_set", {}),
        ("batch", theirs.id, "batch.paused", {}),
        ("undo", _make_undo(session, other, None).id, "undo.started", {}),
        ("wave_plan", foreign, "wave_plan.created", {}),
        ("wave", f"{foreign} 1", "wave.approved", {}),
        ("account", "MINE", "account.erased", {}),
        ("batch", single.id, "batch.results_read", {}),
        ("batch", single.id, "batch.paused", {"outcome": "REFUSED"}),
        ("wave", f"{plan.id} 1", "wave.begun", {"actor_kind": "service"}),
    ):
        _decide(session, kind, subject, action, **values)
    for target in ("MINE", first.id, second.id, single.id, plan.id):
        expected = [decision for decision, targets in about_mine if target in targets]
        assert report(target).decisions == expected, target
    with patch.object(report_module, "MOST_DECISIONS", 2):
        assert report("MINE").decisions == [it for it, _ in about_mine[-2:]]


def test_batches_are_the_newest_ones_with_their_starters(
    session: Session, report: MakeReport, known: KnownSupplier, other: KnownSupplier
) -> None:
    named, unnamed = (
        rows.add(
            session, ApiKey(organisation_id=known.organisation_id, key_sha256=b"", prefix=prefix, name=name)
        )
        for prefix, name in (("abc", "night"), ("def", None))
    )
    made = [
        rows.make_batch(session, known, api_key_id=named.id, lines=3),
        rows.make_batch(session, known, api_key_id=unnamed.id, lines=4),
        rows.make_batch(session, known, address="machine", lines=5),
        rows.make_batch(session, known, lines=6),
        rows.make_batch(session, known, address="machine", lines=7),
        rows.make_batch(session, known, address="machine", lines=8),
        rows.make_batch(session, known, source="pending", mode="import", lines=9),
    ]
    _decide(session, "batch", made[4].id, "batch.paused", actor="ann")
    _decide(session, "batch", made[4].id, "batch.ordered")
    _decide(session, "batch", made[5].id, "batch.ordered", details={"by": "Ada Lovelace"})
    _decide(
        session, "wave_plan", rows.make_plan(session, known, made[6]).id, "wave_plan.created", actor="eva"
    )
    rows.make_batch(session, other)
    started = [(3, "night"), (4, "def"), (5, "command on machine"), (6, None)]
    started += [(7, "dora"), (8, "Ada Lovelace (dora)"), (9, "eva")]

    def batches(target: object) -> list[tuple[int, str | None]]:
        return [(it.lines, starter) for it, starter in report(target).batches]

    assert batches("MINE") == started[::-1]
    for batch, expected in zip(made, started, strict=True):
        assert batches(batch.id) == [expected]
    ((found, _),) = report(made[1].id).batches
    assert found.error_counts == {}  # the report of a single batch
    with patch.object(report_module, "MOST_BATCHES", 2):
        assert batches("MINE") == started[:-3:-1]


def test_a_report_says_when_and_with_what_it_was_made(
    session: Session, report: MakeReport, known: KnownSupplier
) -> None:
    live_at = datetime(2100, 1, 1, tzinfo=UTC)
    session.execute(update(ImportSupplier).where(ImportSupplier.id == known.id).values(live_at=live_at))
    before = datetime.now(UTC)
    found = report("MINE")
    assert before <= found.made_at <= datetime.now(UTC)
    assert found.live_at == live_at
    revision = session.scalar(text("SELECT version_num FROM alembic_version"))
    database = session.scalar(text("SHOW server_version"))
    expected = Versions(
        version("migration-service"), str(revision), str(RULES_VERSION), f"PostgreSQL {database}"
    )
    assert found.versions == expected
    assert (found.rates, found.plan, found.undos, found.decisions) == (None, None, [], [])
    rows.make_process(session, known, "1", account_created_at=rows.read_now(session))
    rates = report("MINE").rates
    assert rates is not None
    assert sum(rates.done) == 1


def _values(known: KnownSupplier, *batches: Batch) -> dict[str, Any]:
    return {"import_supplier_id": known.id, "batch_ids": [it.id for it in batches] or None}


def test_nothing_was_done_yet(session: Session, known: KnownSupplier, other: KnownSupplier) -> None:
    now = rows.read_now(session)
    rows.make_process(session, other, "1", account_created_at=now)
    assert read_rates(session, _values(known)) is None
    rows.make_batch(session, known, started_at=now)
    assert read_rates(session, _values(known, rows.make_batch(session, known))) is None


def test_created_accounts_of_a_supplier_are_counted_in_parts(
    session: Session, known: KnownSupplier, other: KnownSupplier
) -> None:
    since = rows.read_now(session) - timedelta(days=1)
    for supplier, number, second, state in (
        (known, "1", 0, "IMPORTED"),
        (known, "2", 0, "IMPORTED"),
        (known, "3", 10, "IMPORTED"),
        (known, "4", 16, "IMPORTED"),
        (known, "5", 99, "PENDING"),
        (other, "6", 99, "IMPORTED"),
    ):
        at = since + timedelta(seconds=second)
        rows.make_process(session, supplier, number, state=state, account_created_at=at)
    found = read_rates(session, _values(known))
    assert found == Rates(since, since + timedelta(seconds=16), 2.0, [2, 0, 0, 0, 0, 1, 0, 1])
    assert found.highest == 1.0


def test_lines_of_batches_are_counted_in_parts(session: Session, known: KnownSupplier) -> None:
    since = rows.read_now(session) - timedelta(seconds=100)

    def at(second: int | None) -> Any:
        return None if second is None else since + timedelta(seconds=second)

    def make(started: int | None, finished: int | None, *chunks: tuple[int, int]) -> Batch:
        batch = rows.make_batch(session, known, lines=9, started_at=at(started), finished_at=at(finished))
        for line, (second, worked) in enumerate(chunks, 1):
            values = {"counts": {"VALID": 50, "FAILED": worked}, "worked_at": at(second)}
            rows.add_chunk(session, batch, line, worked=worked, **values)
        return batch

    first = make(0, 30, (-1, 100), (3, 3), (4, 5))
    second = make(8, 40, (16, 7), (40, 8), (20, 0))
    make(-50, 60, (20, 1_000))
    never = make(None, None)
    found = read_rates(session, _values(known, first, second, never))
    assert found == Rates(since, at(40), 5.0, [8, 0, 0, 7, 0, 0, 0, 8])
    running = make(4, None)
    found = read_rates(session, _values(known, first, running))
    assert found == Rates(since, rows.read_now(session), 12.5, [8, 0, 0, 0, 0, 0, 0, 0])
