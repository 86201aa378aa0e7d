"""The bodies and responses of wave plans."""

import re
from typing import Any, ClassVar

from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_payloads.schemas.coded import Messages
from migration_payloads.schemas.fields import (
    Choice,
    Day,
    Flag,
    Identifier,
    Message,
    NormalIdentifier,
    Object,
    Objects,
    Scope,
    Text,
    Values,
    WholeNumber,
)
from migration_service.schemas import answers
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.schemas.error_threshold import WaveBrakeAnswerSchema
from migration_service.states import WaveState, WaveWait, Weekday

_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_MOMENT = "2026-03-01T21:00:00Z"
_WINDOW = {"start": "22:00", "end": "06:00", "time_zone": "Europe/Amsterdam"}
_KIND = "ELECTRICITY, 1 meter point, with agreements, without statements"
#: Examples of parts of the responses.
ANSWERED_WINDOW: dict[str, Any] = {**_WINDOW, "first_day": "2026-03-02", "days": [*Weekday]}
WAVE_THRESHOLD: dict[str, Any] = {
    "stop_after_errors": "50%",
    "stop_min_lines": 200,
    "stop_window_lines": 200,
    "stop_ignore_codes": [],
    "stop_count_warnings": [],
}
_MOST = 2**31 - 1
_NO_WINDOW = "Without a window, the first wave is started by hand. Later waves start after the previous one."


class TimeOfDay(Text):
    """A time of day, HH:MM."""

    default_error_messages: Messages = {
        "form": Message("{found} is not a time of the form HH:MM, from 00:00 to 23:59.", "invalid_datetime")
    }
    FORM = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)
    described: ClassVar[dict[str, Any]] = {"pattern": rf"^{FORM.pattern}$"}

    def _checked(self, text: str) -> str:
        if not self.FORM.fullmatch(text):
            raise self.make_error("form", input=text)
        return text


class Count(WholeNumber):
    """A whole number of at least 1."""

    default_error_messages: Messages = {"least": Message("{found} is less than 1.", "out_of_range")}
    described: ClassVar[dict[str, Any]] = {"minimum": 1, "maximum": _MOST}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        number = super()._deserialize(value, attr, data, **kwargs)
        if number < 1:
            raise self.make_error("least", input=value)
        return number


class _Part(CommandFields):
    """A part of a plan. A misspelt window must never allow a wave to run at any time."""

    error_messages: dict[str, str] = {
        **CommandFields.error_messages,
        "unknown": Message("This is not a field here.", "unknown_field"),
    }


class WindowSchema(_Part):
    """The hours of each day in which a wave may run."""

    start = TimeOfDay("When it opens, by the clock of its zone.", "22:00", required=True)
    end = TimeOfDay(
        "When it closes. If this is earlier than `start`, it is on the next day.", "06:00", required=True
    )
    time_zone = Identifier("A name of the IANA database.", "Europe/Amsterdam", required=True)
    first_day = Day("The first day on which it opens. By default today.", "2026-03-01")
    days = Values(
        Choice(Weekday), "The days of the week on which it opens. By default every day.", ["sat", "sun"]
    )


class BrakeBodySchema(_Part):
    """The error threshold of a wave, as for a batch."""

    stop_after_errors = Text("A number, a percentage, or `off`.", "5%", required=True, max_length=20)
    stop_min_lines = WholeNumber("A percentage applies only after this many lines.", 200)
    stop_window_lines = WholeNumber("Count only this many of the last lines.", 200)
    stop_ignore_codes = Values(Text(), "A line with no other error codes does not count.", ["required"])
    stop_count_warnings = Values(Text(), "A line with one of these warnings also counts.", ["ledger_missing"])


class _Settings(CommandFields):
    """What a wave has, by default that of its plan."""

    window = Object(WindowSchema, f"When it may run. {_NO_WINDOW}", _WINDOW)
    lines_per_minute = Count("Process at most this many accounts per minute.", 6_000)
    brake = Object(
        BrakeBodySchema,
        "The error threshold. By default more than 50 % of the last 200 lines.",
        {"stop_after_errors": "5%"},
    )


class WaveBodySchema(_Part, _Settings):
    """A wave. It takes its accounts by exactly one of `sample`, `size`, `accounts` and `rest`."""

    name = Text("A name to recognise the wave by.", "Pilot", max_length=200)
    sample = Count(
        "This many accounts, drawn at random: some of every kind of supply and number of meter "
        "points, with and without agreements, with and without statements. Only for the first wave.",
        200,
    )
    size = Count("This many accounts, the next in the order of their numbers.", 10_000)
    accounts = Values(NormalIdentifier(), "The accounts with these numbers.", ["10000001", "10000002"])
    rest = Flag("All remaining accounts. Only for the last wave.", True)
    continue_if_clean = Flag(
        "Whether the next wave starts without approval if this one is clean. The default is the "
        "plan's value.",
        False,
    )


class WavePlanBodySchema(_Settings):
    """The body for creating a plan."""

    import_supplier = NormalIdentifier(
        "The supplier whose pending accounts are migrated.", "DEMO_SUPPLIER", required=True
    )
    operations_team_name = Identifier("The team of the created accounts.", "Migration Team", required=True)
    name = Text("A name to recognise the plan by.", "Spring 2026", max_length=200)
    seed = WholeNumber("The seed of the random draw, to draw the same accounts again.", 20_260_301)
    continue_if_clean = Flag(
        "Whether the wave after a clean one starts without approval. A wave may override it.",
        True,
        load_default=False,
    )
    include_older_versions = Flag(
        "Whether waves include accounts whose newer version was refused.", False, load_default=False
    )
    waves = Objects(
        WaveBodySchema,
        "The waves in their order, at most 50. Settings that a wave leaves out are those of the plan.",
        [{"name": "Pilot", "sample": 200}, {"rest": True}],
        empty=False,
        required=True,
    )


class WaveChangeBodySchema(CommandFields):
    """The body for changing a wave that has not started. What is left out stays as it is."""

    window = Object(
        WindowSchema, f"When it may run. Null for any time. {_NO_WINDOW}", _WINDOW, allow_none=True
    )
    lines_per_minute = Count(
        "Process at most this many accounts per minute. Null for no limit.", 6_000, allow_none=True
    )
    brake = Object(
        BrakeBodySchema,
        "The error threshold. Null for more than 50 % of the last 200 lines.",
        {"stop_after_errors": "5%"},
        allow_none=True,
    )
    continue_if_clean = Flag(
        "Whether the next wave starts without approval if this one is clean. Null for the plan's value.",
        False,
        allow_none=True,
    )
    operations_team_name = Identifier("The team of its accounts.", "Migration Team")


class WaveDecisionBodySchema(CommandFields):
    """The body for approving or stopping a wave."""

    reason = reason_of("Two meters are corrected by hand")
    by = decided_by()


class WavePlanListArgumentsSchema(Fields):
    """The query string of the list of plans."""

    import_supplier = Scope("Only plans of this import supplier.", "DEMO_SUPPLIER")


class StratumAnswerSchema(AnswerSchema):
    """A stratum of the random draw."""

    stratum = answers.String("The properties that its accounts share.", _KIND)
    pending = answers.Integer("How many of its accounts were pending.", 61_200)
    drawn = answers.Integer("How many of its accounts were drawn.", 122)


class WindowAnswerSchema(AnswerSchema):
    """The window of a wave."""

    start = answers.String("When it opens, by the clock of its zone.", "22:00")
    end = answers.String("When it closes.", "06:00")
    time_zone = answers.String("A name of the IANA database.", "Europe/Amsterdam")
    first_day = answers.String("The first day on which it opens.", "2026-03-01")
    days = answers.List(answers.String, "The days of the week on which it opens.", ["mon", "tue"])


class WaveAnswerSchema(AnswerSchema):
    """A wave and its progress."""

    number = answers.Integer("Its place in the plan, from 1.", 1)
    name = answers.String("Its name, if it was given one.", "Pilot", allow_none=True)
    state = answers.String("Its state.", "RUNNING", words=WaveState)
    reason = answers.String("Why it is PAUSED. Null if a person paused it.", "window_closed", allow_none=True)
    waits_for = answers.String(
        "What it waits for if it is WAITING: its window, the approval of an earlier wave, or a "
        "person who starts it. Null if it starts within a few seconds.",
        "window",
        allow_none=True,
        words=WaveWait,
    )
    continue_if_clean = answers.Boolean(
        "Whether the next wave starts without approval if this one is clean.", False
    )
    batch_id = answers.UUID("Its batch, which has the results.", _BATCH_ID)
    lines = answers.Integer("Its accounts.", 200)
    counts = answers.Counts("Its accounts by status.", {"IMPORTED": 120})
    window = answers.Nested(
        WindowAnswerSchema, f"When it may run. {_NO_WINDOW}", ANSWERED_WINDOW, allow_none=True
    )
    opens_at = answers.Moment(
        "When its window opens next or, if it is open, opened, in UTC.", _MOMENT, allow_none=True
    )
    closes_at = answers.Moment("When that window closes, in UTC.", "2026-03-02T05:00:00Z", allow_none=True)
    lines_per_minute = answers.Integer("At most this many accounts per minute.", 6_000, allow_none=True)
    operations_team_name = answers.String("The team of its accounts.", "Migration Team")
    brake = answers.Nested(
        WaveBrakeAnswerSchema, "Its error threshold. Null if it has none.", WAVE_THRESHOLD, allow_none=True
    )
    strata = answers.List(StratumAnswerSchema, "The strata of a random draw, largest first.", allow_none=True)
    began_at = answers.Moment("When it started, in UTC.", _MOMENT, allow_none=True)
    began_by = answers.String(
        "Who started it by hand. Null if it started by itself.", "API key mig_4fQ2", allow_none=True
    )
    ended_at = answers.Moment(
        "When every account of it first had an outcome, in UTC.", "2026-03-01T21:04:00Z", allow_none=True
    )
    seconds_50 = answers.Float(
        "The forecast running time, in seconds: half of all waves need no longer. Of a wave that has "
        "started, this and the next four are what was forecast then. Null if no rate was measured yet.",
        180.0,
        allow_none=True,
    )
    seconds_90 = answers.Float(
        "The running time that nine of ten waves do not exceed.", 290.0, allow_none=True
    )
    ends_at_50 = answers.Moment("The forecast end, in UTC.", "2026-03-01T21:03:00Z", allow_none=True)
    ends_at_90 = answers.Moment(
        "When nine of ten such waves have ended, in UTC.", "2026-03-01T21:04:50Z", allow_none=True
    )
    fits_window = answers.Boolean(
        "Whether nine of ten such waves end before the window closes for the first time. Null without a "
        "window.",
        True,
        allow_none=True,
    )
    reconciled_at = answers.Moment("When it was last reconciled, in UTC.", _MOMENT, allow_none=True)
    differing = answers.Integer("Created accounts that differ from what was staged.", 0, allow_none=True)
    open = answers.Integer(
        "Accounts that were then neither created nor skipped nor acknowledged.", 2, allow_none=True
    )
    reverted = answers.Integer("Accounts that were undone.", 0)
    existing = answers.Integer("Accounts of the wave that exist now, without those that were undone.", 198)
    decided_by = answers.String("Who approved or stopped it.", "API key mig_4fQ2", allow_none=True)
    decided_at = answers.Moment("When, in UTC.", _MOMENT, allow_none=True)
    decision_reason = answers.String("Why.", "Two meters are corrected by hand", allow_none=True)


class WavePlanAnswerSchema(AnswerSchema):
    """A plan with its waves."""

    plan_id = answers.UUID("The id of the plan.", _PLAN_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    operations_team_name = answers.String("The team of the created accounts.", "Migration Team")
    name = answers.String("Its name, if it was given one.", "Spring 2026", allow_none=True)
    seed = answers.Integer("The seed of the random draw.", 20_260_301)
    continue_if_clean = answers.Boolean("Whether the wave after a clean one starts without approval.", True)
    created_at = answers.Moment("When it was created, in UTC.", _MOMENT)
    finished_at = answers.Moment("When its last wave ended, in UTC.", _MOMENT, allow_none=True)
    unplanned = answers.Integer("Accounts that were pending when it was created, and are in no wave.", 0)
    older_versions = answers.Integer(
        "The part of these that was left out because a newer version was refused.", 0
    )
    undo_id = answers.UUID(
        "The undo of one of its waves that is running. No wave starts or resumes until it has ended.",
        "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90",
        allow_none=True,
    )
    waves = answers.List(WaveAnswerSchema, "Its waves, in their order.")
