"""What a report is about, and with what it was made."""

from datetime import UTC, datetime
from importlib.metadata import version

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.rules.catalogue import RULES_VERSION
from migration_service.errors import ImportSupplierNotFoundError
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


@pytest.mark.parametrize("target", ["nobody", "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90", "\0", "x" * 1_000, ""])
def test_what_is_neither_a_supplier_nor_a_batch_is_not_found(session: Session, target: str) -> None:
    with pytest.raises(ImportSupplierNotFoundError):
        find_subject(session, target, organisation_id=None)


def test_a_supplier_comes_before_the_batch_or_the_plan_that_it_is_called_like(
    session: Session, known: KnownSupplier, waves: tuple[WavePlan, list[Batch]]
) -> None:
    plan, (*_, single) = waves
    for key, kind in ((single.id, ReportKind.BATCH), (plan.id, ReportKind.PLAN)):
        assert find_subject(session, str(key), organisation_id=None).kind is kind
        rows.add(
            session, ImportSupplier(organisation_id=known.organisation_id, code=str(key), document_root="")
        )
        assert find_subject(session, str(key), organisation_id=None).kind is ReportKind.SUPPLIER


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
