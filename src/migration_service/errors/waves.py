"""Errors about waves and their plans."""

from migration_payloads.errors import InvalidError
from migration_service.errors.base import NotFoundError


class WavePlanNotFoundError(NotFoundError):
    """The wave plan does not exist, or belongs to another organisation."""

    code = "wave_plan_not_found"
    default_detail = "The wave plan does not exist, or belongs to another organisation."
    detail_with_found = "Wave plan {found} does not exist, or belongs to another organisation."
    remedy = "Check the id of the plan."


class WaveNotFoundError(NotFoundError):
    """The plan has no wave of this number."""

    code = "wave_not_found"
    default_detail = "The plan has no wave of this number."
    detail_with_found = "The plan has no wave {found}."
    remedy = "Check the number of the wave. The first one is 1."


class WavePlanOpenError(InvalidError):
    """The import supplier has a plan whose waves have not all ended."""

    code = "wave_plan_not_finished"
    default_detail = "The import supplier has a plan whose waves have not all ended."
    remedy = "Finish that plan, or stop its waves, before you create another one."


class WaveStateError(InvalidError):
    """The wave is not in a state that allows this."""

    code = "wave_state_conflict"
    default_detail = "The state of the wave does not allow this."
    remedy = "Check the state of the wave, and of the waves before it, first."


class WaveWindowClosedError(InvalidError):
    """The window of the wave is closed."""

    code = "wave_window_closed"
    default_detail = "The window of the wave is closed."
    remedy = "Wait for the next window, in which the wave starts automatically."


class ReadinessNotAcceptableError(InvalidError):
    """The check is not a warning that could be accepted."""

    code = "readiness_not_acceptable"
    default_detail = "The check has passed, has failed, or its warning was accepted already."
    remedy = "Check again what it says. What has failed has to be corrected."
