"""States and reasons in the reader's language, shown beside the codes of the interface."""

from collections.abc import Mapping

from migration_service.blueprints.console.languages import current_language, gettext, mark
from migration_service.errors import ImportSupplierCompleteError
from migration_service.services.batches import states
from migration_service.states import WaveState

#: The states in words, shown beside the codes in languages other than English.
WORDS: Mapping[str, str] = {
    "ADDED": mark("added"),
    "ALREADY_ADDED": mark("added before"),
    "ALREADY_IMPORTED": mark("imported before"),
    "APPROVED": mark("approved"),
    "CAME": mark("new"),
    "CANCELLED": mark("cancelled"),
    "CLEAN": mark("clean"),
    "COMPLETED": mark("completed"),
    "Complete": mark("closed"),
    "CREATED_OLDER_VERSION": mark("created in an older version"),
    "DEFERRED": mark("is tried again"),
    "DELIVERED": mark("delivered"),
    "DIFFERS": mark("differs"),
    "DRY_RUN_SUCCEEDED": mark("rehearsal succeeded"),
    "FAILED": mark("failed"),
    "GREW": mark("more"),
    "HELD": mark("held"),
    "IMPORTED": mark("imported"),
    "IN_PROGRESS": mark("in progress"),
    "KEPT": mark("kept"),
    "Ongoing": mark("runs"),
    "PAUSED": mark("paused"),
    "PENDING": mark("pending"),
    "PLANNED": mark("planned"),
    "Paused": mark("paused"),
    "RECONCILING": mark("is being reconciled"),
    "REFUSED": mark("refused"),
    "REPLACED": mark("replaced"),
    "REVERTED": mark("reverted"),
    "RUNNING": mark("runs"),
    "SAME": mark("the same"),
    "SENT": mark("sent"),
    "SHRANK": mark("fewer"),
    "SKIPPED": mark("skipped"),
    "STAGED": mark("staged"),
    "STAGED_OLDER_VERSION": mark("staged in an older version"),
    "STALLED": mark("makes no progress"),
    "STARVING": mark("waits for a processor"),
    "STOPPED": mark("stopped"),
    "SUCCEEDED": mark("succeeded"),
    "THROTTLED": mark("waits for slots"),
    "UNDONE": mark("undone"),
    "VALID": mark("valid"),
    "WAITING": mark("waits"),
    "WENT": mark("gone"),
    "WITHDRAWN": mark("withdrawn"),
    "WOULD_ADD": mark("would be added"),
    "WOULD_IMPORT": mark("would be imported"),
    "WOULD_REPLACE": mark("would be replaced"),
}

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
    text = WORDS.get(str(state), "")
    return gettext(text) if text and current_language() != "en" else ""


def describe_wave(state: str, number: int) -> str:
    """Return the state of a wave as the start of a sentence."""
    return gettext(_OF_WAVE[state], number=number)


def explain_reason(reason: str) -> str:
    """Return a sentence about why a batch or a wave is not running."""
    return gettext(_REASONS.get(reason, _OTHER_REASON))
