"""What the messages about paused batches and waiting waves say."""

import pytest
from sqlalchemy.orm import Session

from migration_service.services.alerts.texts import describe_paused
from migration_service.states import WaveState
from support.factories import Customer
from unit.services.batches.batch_rows import add_chunk
from unit.services.waves.wave_rows import batch_of, make_wave


@pytest.mark.parametrize(
    ("names", "named"),
    [({"name": "Pilot", "file_name": "book"}, "Pilot"), ({"file_name": "book"}, "book"), ({}, None)],
)
def test_a_paused_batch_has_its_name_its_wave_and_its_figures(
    session: Session, customer: Customer, names: dict[str, str], named: str | None
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PAUSED)
    batch = batch_of(session, wave, lines=1_200, **names)
    add_chunk(session, batch, 1, counts={"IMPORTED": 600, "FAILED": 102, "PENDING": 498})
    text = describe_paused(session, batch, "MINE", wave)
    assert text.subject == f"MINE: batch {named or batch.id} is paused after too many errors"
    assert f"It is wave 1 of plan {plan.id}. 702 of 1,200 lines are processed, and 102" in text.said[0]
    assert "wave" not in describe_paused(session, batch, "MINE", None).said[0]
    assert f"migration-service batches show {batch.id}" in text.write("")
    for console in ("https://m.example/console", "https://m.example/console/"):
        assert f"\nhttps://m.example/console/batches/{batch.id}/\n" in text.write(console)
