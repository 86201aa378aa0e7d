"""Every state that a page shows has words."""

from migration_service.blueprints.console.states import WORDS
from migration_service.states import (
    BatchState,
    CodeChange,
    EmailState,
    ImportState,
    LineStatus,
    OpenReason,
    SupplierStatus,
    UndoOutcome,
    UndoState,
    WaveState,
)


def test_every_state_has_words() -> None:
    shown = (
        *(BatchState, CodeChange, EmailState, ImportState, LineStatus),
        *(OpenReason, SupplierStatus, UndoOutcome, UndoState, WaveState),
    )
    assert {state.value for states in shown for state in states} - set(WORDS) == set()
