"""What a report is about, and with what it was made."""

from datetime import UTC, datetime
from importlib.metadata import version

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.db.base import new_id
from migration_service.errors import (
    BatchNotFoundError,
    ImportSupplierNotFoundError,
    WaveNotFoundError,
    WavePlanNotFoundError,
)
from migration_service.models import Batch, ImportSupplier, WavePlan
from migration_service.services.reporting.report import Versions, make_report
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


def test_a_report_says_when_and_with_what_it_was_made(
    session: Session, within: sessionmaker[Session], known: KnownSupplier
) -> None:
    before = datetime.now(UTC)
    found = make_report(within, ReportSubject(ReportKind.SUPPLIER, known))
    assert before <= found.made_at <= datetime.now(UTC)
    revision = session.scalar(text("SELECT version_num FROM alembic_version"))
    database = session.scalar(text("SHOW server_version"))
    expected = Versions(
        version("migration-service"), str(revision), str(RULES_VERSION), f"PostgreSQL {database}"
    )
    assert found.versions == expected
