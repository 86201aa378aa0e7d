"""Whether a wave still waits for a decision. One that comes too late is refused, and says since when."""

from sqlalchemy.orm import Session

from migration_service.errors import WaveStateError
from migration_service.models import Wave, WavePlan
from migration_service.schemas.moments import write_moment
from migration_service.services.waves.states import is_over
from migration_service.states import WaveState

_DECIDED = {WaveState.APPROVED: "approved", WaveState.STOPPED: "stopped"}


def require_undecided(session: Session, plan: WavePlan, wave: Wave) -> None:
    """Raise WaveStateError if the wave is over, so that neither its approval nor its stop has an effect.

    Hold the lock of the plan: then no sweep begins the next wave meanwhile.
    """
    if is_over(plan, wave):
        raise WaveStateError(f"{_tell_decision(wave)} {_tell_consequence(session, plan, wave)}")


def _tell_decision(wave: Wave) -> str:
    word = _DECIDED.get(WaveState(wave.state))
    if word is None:
        return f"The wave is {wave.state}, and its plan goes on without an approval."
    by = f" by {wave.decided_by}" if wave.decided_by else ""
    at = f" at {write_moment(wave.decided_at)}" if wave.decided_at else ""
    return f"The wave was {word}{by}{at} already."


def _tell_consequence(session: Session, plan: WavePlan, wave: Wave) -> str:
    following = session.get(Wave, (plan.id, wave.number + 1), populate_existing=True)
    if following is None:
        return "It is the last wave of its plan."
    if following.state == WaveState.STOPPED:
        return "Every later wave is stopped."
    if following.began_at is None:
        return f"Wave {following.number} has not begun: stop that one, if it must not."
    return f"Wave {following.number} began at {write_moment(following.began_at)}."
