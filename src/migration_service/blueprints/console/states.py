"""States and reasons in the reader's language, shown beside the codes of the interface."""

from collections.abc import Mapping
from itertools import chain

from migration_service.blueprints.console.languages import current_language, gettext, mark
from migration_service.errors import ImportSupplierCompleteError
from migration_service.services.batches import states
from migration_service.states import (
    BatchCondition,
    BatchState,
    CodeChange,
    EmailState,
    ImportState,
    LineStatus,
    OpenReason,
    Outcome,
    SupplierStatus,
    UndoOutcome,
    UndoState,
    WaveState,
)

#: The states that have words in other languages, under their code. In English the code speaks for itself.
STATES: frozenset[str] = frozenset(
    (
        "UNDONE",
        *chain(BatchCondition, BatchState, CodeChange, EmailState, ImportState, LineStatus),
        *chain(OpenReason, Outcome, SupplierStatus, UndoOutcome, UndoState, WaveState),
    )
)

_OF_WAVE: Mapping[str, str] = {
    WaveState.PLANNED: mark("Wave %(number)s is planned"),
    WaveState.WAITING: mark("Wave %(number)s waits"),
    WaveState.RUNNING: mark("Wave %(number)s runs"),
    WaveState.PAUSED: mark("Wave %(number)s is paused"),
    WaveState.RECONCILING: mark("Wave %(number)s is being reconciled"),
    WaveState.CLEAN: mark("Wave %(number)s is clean"),
    WaveState.DIFFERS: mark("Wave %(number)s has accounts that differ or are open"),
    WaveState.APPROVED: mark("Wave %(number)s is approved"),
    WaveState.STOPPED: mark("Wave %(number)s is stopped"),
}

_REASONS: Mapping[str, str] = {
    states.API_KEY_REVOKED: mark(
        "It is paused because its API key was revoked. Resume it here, or with another key."
    ),
    states.ERROR_THRESHOLD_REACHED: mark(
        "It is paused because it has too many errors. Look at them, and then resume or stop it."
    ),
    states.WINDOW_CLOSED: mark(
        "It is paused because its window is closed. It resumes automatically in the next one."
    ),
    ImportSupplierCompleteError.code: mark("It is stopped because its import supplier is Complete."),
}


_OTHER_REASON = mark("Why it is not running:")


def name_state(state: object) -> str:
    """Return a state in the reader's language, or an empty text in English or if the state has no words."""
    return gettext(str(state)) if state in STATES and current_language() != "en" else ""


def describe_wave(state: str, number: int) -> str:
    """Return the state of a wave as the start of a sentence."""
    return gettext(_OF_WAVE[state], number=number)


def explain_reason(reason: str) -> str:
    """Return a sentence about why a batch or a wave is not running."""
    return gettext(_REASONS.get(reason, _OTHER_REASON))
