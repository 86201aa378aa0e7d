"""Go-live: the date can be moved until it has come."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import GoLivePastError, ImportSupplierLiveError
from migration_service.models import ImportSupplier
from migration_service.services.batches.clock import read_clock
from migration_service.services.undo.go_live import preview_live, set_live
from support.audit import list_entries
from support.factories import Customer
from unit.services.undo.undo_rows import MOMENT


def test_a_date_that_has_not_come_can_be_moved(session: Session, customer: Customer) -> None:
    later = (read_clock(session) + timedelta(days=9)).replace(microsecond=0)
    assert set_live(session, customer.import_supplier, later) == later
    with pytest.raises(GoLivePastError, match=r"2026-03-02T12:00:00Z.* is in the past"):
        set_live(session, customer.import_supplier, MOMENT)
    assert set_live(session, customer.import_supplier, MOMENT, may_be_past=True, by="Ada") == MOMENT
    for again in (preview_live, set_live):
        with pytest.raises(ImportSupplierLiveError, match=r"went live at 2026-03-02T12:00:00Z\."):
            again(session, customer.import_supplier, later)
    entries = list_entries(session, action="import_supplier.live_set")
    written = f"{later:%Y-%m-%dT%H:%M:%SZ}"
    assert [it.details for it in entries] == [
        {"live_at": written, "before": None},
        {"live_at": "2026-03-02T12:00:00Z", "before": written, "by": "Ada"},
    ]
    assert {(it.subject_kind, it.subject, it.organisation_id) for it in entries} == {
        ("import_supplier", customer.import_supplier, customer.organisation_id)
    }


def test_the_supplier_is_locked_as_it_is_now(sessions: sessionmaker[Session], customer: Customer) -> None:
    with sessions() as session, sessions() as another:
        this = ImportSupplier.code == customer.import_supplier
        # What only refers to the supplier, as every new import does, hinders nobody.
        another.execute(select(ImportSupplier.id).where(this).with_for_update(key_share=True, read=True))
        set_live(session, customer.import_supplier, read_clock(session) + timedelta(days=9))
        free = select(ImportSupplier.id).where(this).with_for_update(skip_locked=True, key_share=True)
        assert another.scalars(free).all() == []
        session.rollback()
        another.rollback()
        with sessions.begin() as operator:
            operator.execute(update(ImportSupplier).where(this).values(live_at=MOMENT))
        with pytest.raises(ImportSupplierLiveError):
            set_live(session, customer.import_supplier, None)
