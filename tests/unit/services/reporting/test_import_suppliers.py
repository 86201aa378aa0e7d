"""The suppliers of an organisation, with their accounts by state."""

from dataclasses import replace

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from migration_service.errors import ImportSupplierNotFoundError
from migration_service.models import ImportSupplier
from migration_service.origin import SERVICE, acting_as
from migration_service.services.reporting.import_suppliers import (
    ImportSupplierReport,
    count_states,
    report_import_supplier,
    report_import_suppliers,
)
from migration_service.services.setup.suppliers import KnownSupplier
from unit.services.reporting.rows import make_process, make_supplier

_NONE = {"PENDING": 0, "IN_PROGRESS": 0, "IMPORTED": 0, "SKIPPED": 0}


@pytest.fixture
def second(session: Session, known: KnownSupplier, other: KnownSupplier) -> KnownSupplier:
    """Insert accounts, and return another supplier of the first organisation, whose code comes first."""
    made = make_supplier(session, "ANOTHER", known.organisation_id)
    paused = {"status": "Paused", "profile": "strict"}
    session.execute(update(ImportSupplier).where(ImportSupplier.id == made.id).values(paused))
    for supplier, states in (
        (known, ("PENDING", "IMPORTED", "IMPORTED", "IN_PROGRESS")),
        (made, ("SKIPPED",)),
        (other, ("PENDING",)),
    ):
        for number, state in enumerate(states):
            make_process(session, supplier, str(number), state=state)
    return made


def test_suppliers_are_reported_by_code(
    session: Session, known: KnownSupplier, second: KnownSupplier
) -> None:
    mine = ImportSupplierReport(
        "MINE",
        "Ongoing",
        "lenient",
        "Europe/Amsterdam",
        _NONE | {"PENDING": 1, "IMPORTED": 2, "IN_PROGRESS": 1},
    )
    another = ImportSupplierReport("ANOTHER", "Paused", "strict", "Europe/Amsterdam", _NONE | {"SKIPPED": 1})
    assert report_import_suppliers(session, known.organisation_id) == [another, mine]
    assert report_import_supplier(session, known.organisation_id, "MINE") == mine
    with acting_as(replace(SERVICE, import_supplier_ids=frozenset([known.id]))):
        assert report_import_suppliers(session, known.organisation_id) == [mine]
    with pytest.raises(ImportSupplierNotFoundError):
        report_import_supplier(session, known.organisation_id, "OTHER")


def test_states_are_counted_for_the_suppliers_that_are_named(
    session: Session, known: KnownSupplier, second: KnownSupplier
) -> None:
    found = count_states(session, [second.id, known.id])
    assert found == {second.id: _NONE | {"SKIPPED": 1}, known.id: found[known.id]}
    assert sum(found[known.id].values()) == 4
