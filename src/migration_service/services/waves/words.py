"""The state and the reconciliation of a wave in words, for the command line and the report."""

from datetime import UTC, datetime

from migration_service.services.waves.reports import WaveReport
from migration_service.states import WaveWait


def describe_state(wave: WaveReport) -> str:
    """Return the state of a wave, including what it waits for, why it is paused and whether it is undone."""
    words = str(wave.state)
    if wave.waits_for:
        opens = f" at {_write(wave.opens_at)}" if wave.opens_at else ", which does not open any more"
        words += {
            WaveWait.WINDOW: f" for the window{opens}",
            WaveWait.APPROVAL: f" for the approval of wave {wave.waits_for_wave}",
            WaveWait.PERSON: " for somebody to start it",
        }[wave.waits_for]
    elif wave.reason:
        words += f" ({wave.reason})"
    if wave.undo_id:
        words += ", being undone"
    return f"{words}, {wave.undone} undone" if wave.undone else words


def describe_found(wave: WaveReport) -> str | None:
    """Return the result and time of the last reconciliation of a wave, or None if there was none."""
    if wave.differing is None or wave.open is None or wave.reconciled_at is None:
        return None
    return f"{wave.differing} differ, {wave.open} open at {_write(wave.reconciled_at)}"


def _write(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
