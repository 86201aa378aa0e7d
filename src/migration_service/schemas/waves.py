"""The bodies and responses of wave plans."""

import re
from typing import Any, ClassVar

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, CommandFields, Fields
from migration_service.schemas.coded import Messages
from migration_service.schemas.fields import (
    AnsweredMoment,
    Choice,
    Day,
    Flag,
    Identifier,
    Message,
    NormalIdentifier,
    Object,
    Objects,
    Text,
    Values,
    WholeNumber,
    about,
)
from migration_service.states import WaveState, WaveWait, Weekday

_PLAN_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b12"
_MOMENT = "2026-03-01T21:00:00Z"
_COUNTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_WINDOW = {"start": "22:00", "end": "06:00", "time_zone": "Europe/Amsterdam"}
_KIND = "ELECTRICITY, 1 meter point, with agreements, without statements"
#: Examples of parts of the responses.
STRATUM = {"stratum": _KIND, "pending": 61_200, "drawn": 122}
ANSWERED_WINDOW: dict[str, Any] = {**_WINDOW, "first_day": "2026-03-02", "days": [*Weekday]}
WAVE_BRAKE: dict[str, Any] = {
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

    start = TimeOfDay(required=True, metadata=about("When it opens, by the clock of its zone.", "22:00"))
    end = TimeOfDay(
        required=True,
        metadata=about("When it closes. If this is earlier than `start`, it is on the next day.", "06:00"),
    )
    time_zone = Identifier(required=True, metadata=about("A name of the IANA database.", "Europe/Amsterdam"))
    first_day = Day(metadata=about("The first day on which it opens. By default today.", "2026-03-01"))
    days = Values(
        Choice(Weekday),
        metadata=about("The days of the week on which it opens. By default every day.", ["sat", "sun"]),
    )


class BrakeBodySchema(_Part):
    """The error threshold of a wave, as for a batch."""

    stop_after_errors = Text(
        required=True, max_length=20, metadata=about("A number, a percentage, or `off`.", "5%")
    )
    stop_min_lines = WholeNumber(metadata=about("A percentage applies only after this many lines.", 200))
    stop_window_lines = WholeNumber(metadata=about("Count only this many of the last lines.", 200))
    stop_ignore_codes = Values(
        Text(), metadata=about("A line with no other error codes does not count.", ["required"])
    )
    stop_count_warnings = Values(
        Text(), metadata=about("A line with one of these warnings also counts.", ["ledger_missing"])
    )


def _window() -> Object:
    return Object(WindowSchema, metadata=about(f"When it may run. {_NO_WINDOW}", _WINDOW))


def _lines_per_minute() -> Count:
    return Count(metadata=about("Process at most this many accounts per minute.", 6_000))


def _brake() -> Object:
    return Object(
        BrakeBodySchema,
        metadata=about(
            "The error threshold. By default more than 50 % of the last 200 lines.",
            {"stop_after_errors": "5%"},
        ),
    )


class WaveBodySchema(_Part):
    """A wave. It takes its accounts by exactly one of `sample`, `size`, `accounts` and `rest`."""

    name = Text(max_length=200, metadata=about("A name to recognise the wave by.", "Pilot"))
    sample = Count(
        metadata=about(
            "This many accounts, drawn at random: some of every kind of supply and number of meter "
            "points, with and without agreements, with and without statements. Only for the first wave.",
            200,
        )
    )
    size = Count(metadata=about("This many accounts, the next in the order of their numbers.", 10_000))
    accounts = Values(
        NormalIdentifier(), metadata=about("The accounts with these numbers.", ["10000001", "10000002"])
    )
    rest = Flag(metadata=about("All remaining accounts. Only for the last wave.", True))
    continue_if_clean = Flag(
        metadata=about(
            "Whether the next wave starts without approval if this one is clean. The default is the "
            "plan's value.",
            False,
        )
    )
    window = _window()
    lines_per_minute = _lines_per_minute()
    brake = _brake()


class WavePlanBodySchema(CommandFields):
    """The body for creating a plan."""

    import_supplier = NormalIdentifier(
        required=True, metadata=about("The supplier whose pending accounts are migrated.", "DEMO_SUPPLIER")
    )
    operations_team_name = Identifier(
        required=True, metadata=about("The team of the created accounts.", "Migration Team")
    )
    name = Text(max_length=200, metadata=about("A name to recognise the plan by.", "Spring 2026"))
    seed = WholeNumber(
        metadata=about("The seed of the random draw, to draw the same accounts again.", 20_260_301)
    )
    continue_if_clean = Flag(
        load_default=False,
        metadata=about(
            "Whether the wave after a clean one starts without approval. A wave may override it.",
            True,
        ),
    )
    include_older_versions = Flag(
        load_default=False,
        metadata=about("Whether waves include accounts whose newer version was refused.", False),
    )
    window = _window()
    lines_per_minute = _lines_per_minute()
    brake = _brake()
    waves = Objects(
        WaveBodySchema,
        empty=False,
        required=True,
        metadata=about(
            "The waves in their order, at most 50. Settings that a wave leaves out are those of the plan.",
            [{"name": "Pilot", "sample": 200}, {"rest": True}],
        ),
    )


class WaveDecisionBodySchema(CommandFields):
    """The body for approving or stopping a wave."""

    reason = Identifier(
        required=True,
        max_length=1_000,
        metadata=about("The reason. It is kept: no personal data.", "Two meters are corrected by hand"),
    )


class WavePlanListArgumentsSchema(Fields):
    """The query string of the list of plans."""

    import_supplier = Identifier(metadata=about("Only plans of this import supplier.", "DEMO_SUPPLIER"))


class StratumAnswerSchema(AnswerSchema):
    """A stratum of the random draw."""

    stratum = fields.String(metadata=about("The properties that its accounts share.", _KIND))
    pending = fields.Integer(metadata=about("How many of its accounts were pending.", 61_200))
    drawn = fields.Integer(metadata=about("How many of its accounts were drawn.", 122))


class WindowAnswerSchema(AnswerSchema):
    """The window of a wave."""

    start = fields.String(metadata=about("When it opens, by the clock of its zone.", "22:00"))
    end = fields.String(metadata=about("When it closes.", "06:00"))
    time_zone = fields.String(metadata=about("A name of the IANA database.", "Europe/Amsterdam"))
    first_day = fields.String(metadata=about("The first day on which it opens.", "2026-03-01"))
    days = fields.List(
        fields.String(), metadata=about("The days of the week on which it opens.", ["mon", "tue"])
    )


class WaveBrakeAnswerSchema(AnswerSchema):
    """The error threshold of a wave. The batch's report has the current counts."""

    stop_after_errors = fields.String(metadata=about("A number, or a percentage.", "50%"))
    stop_min_lines = fields.Integer(
        allow_none=True, metadata=about("A percentage applies only after this many lines.", 200)
    )
    stop_window_lines = fields.Integer(
        allow_none=True, metadata=about("The number of lines in the window.", 200)
    )
    stop_ignore_codes = fields.List(
        fields.String(), metadata=about("A line with no other error codes does not count.", ["required"])
    )
    stop_count_warnings = fields.List(
        fields.String(), metadata=about("A line with one of these warnings also counts.", ["ledger_missing"])
    )


class WaveAnswerSchema(AnswerSchema):
    """A wave and its progress."""

    number = fields.Integer(metadata=about("Its place in the plan, from 1.", 1))
    name = fields.String(allow_none=True, metadata=about("Its name, if it was given one.", "Pilot"))
    state = fields.String(metadata=about("Its state.", "RUNNING", enum=[state.value for state in WaveState]))
    reason = fields.String(
        allow_none=True,
        metadata=about("Why it is PAUSED. Null if a person paused it.", "window_closed"),
    )
    waits_for = fields.String(
        allow_none=True,
        metadata=about(
            "What it waits for if it is WAITING: its window, the approval of an earlier wave, or a "
            "person who starts it. Null if it starts within a few seconds.",
            "window",
            enum=[*(wait.value for wait in WaveWait), None],
        ),
    )
    continue_if_clean = fields.Boolean(
        metadata=about("Whether the next wave starts without approval if this one is clean.", False)
    )
    batch_id = fields.UUID(metadata=about("Its batch, which has the results.", _BATCH_ID))
    lines = fields.Integer(metadata=about("Its accounts.", 200))
    counts = fields.Dict(metadata=about("Its accounts by status.", {"IMPORTED": 120}, **_COUNTS))
    window = fields.Nested(
        WindowAnswerSchema,
        allow_none=True,
        metadata=about(f"When it may run. {_NO_WINDOW}", ANSWERED_WINDOW),
    )
    opens_at = AnsweredMoment(
        allow_none=True,
        metadata=about("When its window opens next or, if it is open, opened, in UTC.", _MOMENT),
    )
    closes_at = AnsweredMoment(
        allow_none=True, metadata=about("When that window closes, in UTC.", "2026-03-02T05:00:00Z")
    )
    lines_per_minute = fields.Integer(
        allow_none=True, metadata=about("At most this many accounts per minute.", 6_000)
    )
    brake = fields.Nested(
        WaveBrakeAnswerSchema,
        allow_none=True,
        metadata=about("Its error threshold. Null if it has none.", WAVE_BRAKE),
    )
    strata = fields.List(
        fields.Nested(StratumAnswerSchema),
        allow_none=True,
        metadata=about("The strata of a random draw, largest first.", [STRATUM]),
    )
    began_at = AnsweredMoment(allow_none=True, metadata=about("When it started, in UTC.", _MOMENT))
    reconciled_at = AnsweredMoment(
        allow_none=True, metadata=about("When it was last reconciled, in UTC.", _MOMENT)
    )
    differing = fields.Integer(
        allow_none=True, metadata=about("Created accounts that differ from what was staged.", 0)
    )
    open = fields.Integer(
        allow_none=True,
        metadata=about("Accounts that were then neither created nor skipped nor acknowledged.", 2),
    )
    reverted = fields.Integer(metadata=about("Accounts that were undone.", 0))
    existing = fields.Integer(
        metadata=about("Accounts of the wave that exist now, without those that were undone.", 198)
    )
    decided_by = fields.String(
        allow_none=True, metadata=about("Who approved or stopped it.", "API key mig_4fQ2")
    )
    decided_at = AnsweredMoment(allow_none=True, metadata=about("When, in UTC.", _MOMENT))
    decision_reason = fields.String(
        allow_none=True, metadata=about("Why.", "Two meters are corrected by hand")
    )


_WAVE = {name: field.metadata["example"] for name, field in WaveAnswerSchema().fields.items()}


class WavePlanAnswerSchema(AnswerSchema):
    """A plan with its waves."""

    plan_id = fields.UUID(metadata=about("The id of the plan.", _PLAN_ID))
    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    operations_team_name = fields.String(
        metadata=about("The team of the created accounts.", "Migration Team")
    )
    name = fields.String(allow_none=True, metadata=about("Its name, if it was given one.", "Spring 2026"))
    seed = fields.Integer(metadata=about("The seed of the random draw.", 20_260_301))
    continue_if_clean = fields.Boolean(
        metadata=about("Whether the wave after a clean one starts without approval.", True)
    )
    created_at = AnsweredMoment(metadata=about("When it was created, in UTC.", _MOMENT))
    finished_at = AnsweredMoment(
        allow_none=True, metadata=about("When its last wave ended, in UTC.", _MOMENT)
    )
    unplanned = fields.Integer(
        metadata=about("Accounts that were pending when it was created, and are in no wave.", 0)
    )
    older_versions = fields.Integer(
        metadata=about(
            "The part of these that was left out because a newer version was refused.",
            0,
        )
    )
    undo_id = fields.UUID(
        allow_none=True,
        metadata=about(
            "The undo of one of its waves that is running. No wave starts or resumes until it has ended.",
            "019aa5e0-9a31-7f00-8c15-6f2d1b7e4a90",
        ),
    )
    waves = fields.List(
        fields.Nested(WaveAnswerSchema), metadata=about("Its waves, in their order.", [_WAVE])
    )
