"""The suppliers of an organisation, with their accounts by state."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from migration_service.models import ImportSupplier
from migration_service.services.reporting.import_suppliers import (
    count_states,
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


def test_states_are_counted_for_the_suppliers_that_are_named(
    session: Session, known: KnownSupplier, second: KnownSupplier
) -> None:
    found = count_states(session, [second.id, known.id])
    assert found == {second.id: _NONE | {"SKIPPED": 1}, known.id: found[known.id]}
    assert sum(found[known.id].values()) == 4
