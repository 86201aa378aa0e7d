"""Messages: any address is one recipient, or none, and what is said of a paused batch."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from migration_service.emails.messages import Envelope, compose_account_created
from migration_service.emails.smtp import EmailRefusedError
from migration_service.services.alerts.messages import describe_paused
from migration_service.states import WaveState
from support.factories import Customer
from support.rows import add_chunk
from unit.services.waves.wave_rows import batch_of, make_wave


@given(recipient=st.text(max_size=60) | st.text(alphabet='ab@.<>,;:"\\()[] \r\n', max_size=20))
def test_any_address_is_one_recipient_or_is_refused(recipient: str) -> None:
    sender, written_at = "Example Energy <welcome@energy.example>", datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
    try:
        message = compose_account_created(Envelope("<1@e.example>", sender, recipient, written_at), "A-1")
    except EmailRefusedError:
        return
    assert len(message["To"].addresses) == 1
    assert message["Bcc"] is None


def test_a_paused_batch_has_its_id_its_wave_and_its_figures_and_no_name_of_a_clients(
    session: Session, customer: Customer
) -> None:
    plan, wave = make_wave(session, customer, WaveState.PAUSED)
    batch = batch_of(session, wave, lines=1_200, name="Pilot", file_name="my-file")
    add_chunk(session, batch, 1, counts={"IMPORTED": 600, "FAILED": 102, "PENDING": 498})
    subject, body = describe_paused(session, batch, "MINE", wave, "")
    assert subject == f"MINE: batch {batch.id} is paused after too many errors"
    assert f"It is wave 1 of plan {plan.id}. 702 of 1,200 lines are processed, and 102" in body
    assert "wave" not in describe_paused(session, batch, "MINE", None, "")[1]
    assert f"\nmigration-client batches show {batch.id}\n" in body
    assert not any(name in body for name in ("Pilot", "my-file"))
    for console in ("https://m.example/console", "https://m.example/console/"):
        body = describe_paused(session, batch, "MINE", wave, console)[1]
        assert f"\nhttps://m.example/console/batches/{batch.id}/\n" in body
