"""What keeps a batch from going on."""

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from migration_service.errors import BatchStateError
from migration_service.models import Undo
from migration_service.services.batches.undo_guards import find_undos_of_plans, require_no_undo
from migration_service.services.waves.reading import list_waves
from migration_service.states import WaveState
from support.factories import Customer
from unit.services.batches.batch_rows import make_batch
from unit.services.undo.undo_rows import MOMENT, add_undo
from unit.services.waves.wave_rows import batch_of, make_plan


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_wave_waits_for_the_first_undo_of_any_wave_of_its_plan(
    session: Session, customer: Customer, other: Customer, earlier: int
) -> None:
    plan = make_plan(session, customer, WaveState.APPROVED, WaveState.WAITING)
    elsewhere = make_plan(session, other, WaveState.WAITING)
    first, second = waves = list_waves(session, plan.id)
    add_undo(session, customer, batch_id=first.batch_id, finished_at=MOMENT)
    undo = add_undo(session, customer, batch_id=waves[earlier].batch_id)
    session.flush()
    second_undo = add_undo(session, customer, batch_id=waves[1 - earlier].batch_id)
    running = {waves[earlier].batch_id: undo.id, waves[1 - earlier].batch_id: second_undo.id}
    assert find_undos_of_plans(session, [plan.id, elsewhere.id]) == running
    assert find_undos_of_plans(session, [elsewhere.id]) == {}
    expected = f"^Undo {undo.id} of accounts of this plan is running. Wait until it has ended, or cancel it.$"
    with pytest.raises(BatchStateError, match=expected):
        require_no_undo(session, batch_of(session, second))
    for wave in list_waves(session, elsewhere.id):
        require_no_undo(session, batch_of(session, wave))
    require_no_undo(session, make_batch(session, customer))
    session.execute(update(Undo).values(finished_at=MOMENT))
    require_no_undo(session, batch_of(session, second))
