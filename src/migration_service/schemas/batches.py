"""Query strings and responses of the endpoints for batches."""

from typing import Any

from marshmallow import fields

from migration_service.schemas.base import AnswerSchema, Fields
from migration_service.schemas.brakes import (
    BRAKE,
    STOP_COUNT_WARNINGS,
    STOP_IGNORE_CODES,
    STOP_MIN_LINES,
    STOP_WINDOW_LINES,
    BrakeAnswerSchema,
    stop_after_errors,
)
from migration_service.schemas.extracts import extract_moment
from migration_service.schemas.fields import (
    AnsweredMoment,
    Choice,
    Flag,
    Identifier,
    Text,
    WholeNumber,
    about,
)
from migration_service.schemas.requests import LineErrorObjectSchema
from migration_service.states import (
    BatchCondition,
    BatchKind,
    BatchMode,
    BatchSource,
    BatchState,
    LineStatus,
    Profile,
    StagingResult,
)

_COUNTS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_MOMENT = "2026-03-01T22:00:00Z"
_ERROR = {
    "detail": "This field is required.",
    "code": "required",
    "attr": "ledgers.0.ledger_code",
    "value": None,
}
_WARNING = {
    "detail": "'phone' is not a field here.",
    "code": "unknown_field",
    "attr": "customers.0.phone",
    "value": "020",
}


class BatchArgumentsSchema(Fields):
    """The query string that starts a batch."""

    import_supplier = Identifier(
        required=True,
        metadata=about("The import supplier that every line of the batch names.", "DEMO_SUPPLIER"),
    )
    kind = Choice(
        BatchKind,
        load_default=BatchKind.ACCOUNTS.value,
        metadata=about(
            "What the lines are: each is the body of the single endpoint.",
            "accounts",
            schema={"type": "string", "enum": [kind.value for kind in BatchKind], "default": "accounts"},
        ),
    )
    mode = Choice(
        BatchMode,
        required=True,
        metadata=about(
            "`validate` and `stage` do what the endpoints do. `import` stages and creates, or adds. "
            "`dry-run` does what `import` does, and rolls it back. Only accounts are staged.",
            "import",
            schema={"type": "string", "enum": [mode.value for mode in BatchMode]},
        ),
    )
    operations_team_name = Identifier(
        metadata=about(
            "The team of the created accounts. Required for `import` and `dry-run` of accounts. It has no "
            "effect in the other modes, and is refused with added data.",
            "Migration Team",
        )
    )
    source = Choice(
        BatchSource,
        load_default=BatchSource.UPLOAD.value,
        metadata=about(
            "`upload`: the lines are the body. `pending`: no body, but everything that the supplier has "
            "pending, for `import` and `dry-run`.",
            "upload",
            schema={"type": "string", "enum": [it.value for it in BatchSource], "default": "upload"},
        ),
    )

    check_previously_added = Flag(
        metadata=about(
            "Of a batch of transactions: skip a transaction that was already added. The default is true.",
            True,
            schema={"type": "boolean"},
        )
    )
    force_add_to_current_statement = Flag(
        metadata=about(
            "Of a batch of transactions: if a transaction is outside the open statement period, change its "
            "date instead of failing. The default is true.",
            True,
            schema={"type": "boolean"},
        )
    )
    include_older_versions = Flag(
        metadata=about(
            "Of `source=pending`: also create the accounts of which a newer version was sent and not taken. "
            "The default is false.",
            False,
            schema={"type": "boolean"},
        )
    )
    name = Text(max_length=200, metadata=about("A name by which to recognise the batch.", "First night"))
    file_name = Text(
        max_length=255, metadata=about("The name of the file that is the body.", "book.ndjson.gz")
    )
    profile = Choice(
        Profile,
        metadata=about(
            "Validate the lines under this profile instead of the supplier's own. Only `strict`, unless the "
            "mode is `validate`.",
            "strict",
            schema={"type": "string", "enum": [profile.value for profile in Profile]},
        ),
    )
    extracted_at = extract_moment()
    stop_after_errors = stop_after_errors(required=False)
    stop_min_lines = STOP_MIN_LINES
    stop_window_lines = STOP_WINDOW_LINES
    stop_ignore_codes = STOP_IGNORE_CODES
    stop_count_warnings = STOP_COUNT_WARNINGS


class BatchListArgumentsSchema(Fields):
    """The query string of the list of batches."""

    import_supplier = Identifier(metadata=about("Only batches of this import supplier.", "DEMO_SUPPLIER"))
    limit = WholeNumber(
        load_default=50,
        metadata=about(
            "At most this many batches, 1 to 500. The Link header has the next page.",
            50,
            schema={"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        ),
    )
    cursor = Identifier(metadata=about("Where the page starts, taken from the Link header.", _BATCH_ID))


class ResultArgumentsSchema(Fields):
    """The query string of the results of a batch."""

    status = Choice(
        LineStatus,
        metadata=about(
            "Only lines in this status.",
            "FAILED",
            schema={"type": "string", "enum": [status.value for status in LineStatus]},
        ),
    )

    staging_result = Choice(
        StagingResult,
        metadata=about(
            "Only lines whose payload was staged with this result.",
            "REPLACED",
            schema={"type": "string", "enum": [result.value for result in StagingResult]},
        ),
    )
    code = Identifier(
        metadata=about(
            "Only lines with an error or a warning of this code. CSV has only those.", "invalid_phone_number"
        )
    )
    path = Identifier(
        max_length=1_000,
        metadata=about(
            "Only lines with an error or a warning at this path or below it. CSV has only those. `*` stands "
            "for any index, as in `customers.*.mobile`.",
            "customers.*.mobile",
        ),
    )


class FailedLinesArgumentsSchema(Fields):
    """The query string of the failed lines of a batch."""

    code = Identifier(
        metadata=about("Only lines with an error or a warning of this code.", "invalid_phone_number")
    )
    path = Identifier(
        max_length=1_000,
        metadata=about(
            "Only lines with an error or a warning at this path or below it.", "customers.*.mobile"
        ),
    )


class RetryArgumentsSchema(Fields):
    """The query string of a retry."""

    all = Flag(
        load_default=False,
        metadata=about(
            "Also retry the lines that failed for their content, although nothing has changed.",
            False,
            schema={"type": "boolean", "default": False},
        ),
    )
    code = Identifier(
        metadata=about("Only lines with an error or a warning of this code.", "payment_vendor_unavailable")
    )
    path = Identifier(
        max_length=1_000,
        metadata=about(
            "Only lines with an error or a warning at this path or below it. `*` stands for any index, as in "
            "`customers.*.mobile`.",
            "vendor",
        ),
    )


class BatchAnswerSchema(AnswerSchema):
    """A batch with its counts."""

    batch_id = fields.UUID(metadata=about("The id of the batch.", _BATCH_ID))
    import_supplier = fields.String(metadata=about("Code of the import supplier.", "DEMO_SUPPLIER"))
    operations_team_name = fields.String(
        allow_none=True, metadata=about("The team of the created accounts.", "Migration Team")
    )
    name = fields.String(allow_none=True, metadata=about("Its name, if it was given one.", "First night"))
    file_name = fields.String(
        allow_none=True, metadata=about("The name of the file that its lines came in.", "book.ndjson.gz")
    )
    file_sha256 = fields.String(
        allow_none=True,
        metadata=about(
            "The SHA-256 of the file as it was sent, which `sha256sum` prints for it. Compressed data is not "
            "unpacked for it. Null without a file.",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
    )
    file_bytes = fields.Integer(
        allow_none=True, metadata=about("The size of the file as it was sent, in bytes.", 36_412_877)
    )
    kind = fields.String(
        metadata=about("What its lines are.", "accounts", enum=[kind.value for kind in BatchKind])
    )
    options = fields.Dict(
        metadata=about(
            "Of transactions: the arguments that differ from the default. Of what was pending: "
            "`include_older_versions`.",
            {},
            type="object",
            additionalProperties={"type": "boolean"},
        )
    )
    mode = fields.String(
        metadata=about("What is done with its lines.", "import", enum=[mode.value for mode in BatchMode])
    )
    profile = fields.String(
        allow_none=True,
        metadata=about("The profile of its lines. Null for the supplier's own profile.", "strict"),
    )
    extracted_at = AnsweredMoment(
        allow_none=True, metadata=about("When the supplier extracted its accounts, in UTC.", _MOMENT)
    )
    older_versions = fields.Integer(
        allow_none=True,
        metadata=about(
            "Of `source=pending`: accounts that were left out, because a newer version of them was sent and "
            "not taken. Otherwise null.",
            None,
        ),
    )
    source = fields.String(
        metadata=about("Where its lines came from.", "upload", enum=[source.value for source in BatchSource])
    )
    state = fields.String(metadata=about("Its state.", "RUNNING", enum=[state.value for state in BatchState]))
    reason = fields.String(
        allow_none=True,
        metadata=about("The code that says why it is WAITING, PAUSED or STOPPED.", "import_supplier_paused"),
    )
    created_at = AnsweredMoment(metadata=about("When the request started it, in UTC.", _MOMENT))
    started_at = AnsweredMoment(
        allow_none=True, metadata=about("When its first line was begun, in UTC.", _MOMENT)
    )
    finished_at = AnsweredMoment(
        allow_none=True, metadata=about("When its last line was done, in UTC.", _MOMENT)
    )
    lines_removed_at = AnsweredMoment(
        allow_none=True, metadata=about("When the lines and results were removed, in UTC.", _MOMENT)
    )
    lines = fields.Integer(metadata=about("Lines that are not blank.", 100_000))
    counts = fields.Dict(
        metadata=about("Lines by status.", {"PENDING": 60_000, "IMPORTED": 40_000}, **_COUNTS)
    )
    undone = fields.Integer(
        metadata=about("Accounts of its lines that were undone, and do not exist now.", 0)
    )


class BatchProgressAnswerSchema(BatchAnswerSchema):
    """The full report of a batch."""

    error_counts = fields.Dict(
        metadata=about(
            "Lines by the codes of their errors, the most frequent first.", {"required": 360}, **_COUNTS
        )
    )
    warning_counts = fields.Dict(metadata=about("The same for warnings.", {"unknown_field": 12}, **_COUNTS))
    staging_counts = fields.Dict(
        metadata=about(
            "Lines by what staging their payload did.", {"STAGED": 39_988, "REPLACED": 12}, **_COUNTS
        )
    )
    rate = fields.Float(
        allow_none=True,
        metadata=about(
            "Lines per second of the time in which the batch ran: mostly recently while it runs, otherwise "
            "of the whole run. Pauses are not in it, and an outage counts little. Null if it is not known.",
            1_300.0,
        ),
    )
    time_left = fields.Float(
        allow_none=True,
        metadata=about(
            "The seconds for which it probably has to run. Pauses and closed windows are not in it, nor are "
            "DEFERRED lines. Null if too little was seen yet, or if it makes no progress.",
            45.4,
        ),
    )
    time_left_low = fields.Float(
        allow_none=True, metadata=about("The same at best. It is rarely done sooner.", 36.0)
    )
    time_left_high = fields.Float(
        allow_none=True, metadata=about("The same at worst. It rarely takes longer.", 62.5)
    )
    runs_until = AnsweredMoment(
        allow_none=True,
        metadata=about("When the window of its wave closes, in UTC: no line is begun from then on.", _MOMENT),
    )
    condition = fields.String(
        allow_none=True,
        metadata=about(
            "Why a running batch makes little or no progress. `DEFERRED`: all its open lines wait for an "
            "account or for a payment vendor, and are tried again at `next_try_at`. `STALLED`: no line was "
            "worked on for a minute. `THROTTLED`: its lines wait for slots. `STARVING`: its workers wait for "
            "a processor most of the time, because the machine is busy with other work.",
            "THROTTLED",
            enum=[*(condition.value for condition in BatchCondition), None],
        ),
    )
    next_try_at = AnsweredMoment(
        allow_none=True,
        metadata=about(
            "If the condition is `DEFERRED`: when lines are next tried, in UTC, or null if they are being "
            "tried. They are tried earlier if an import batch of the supplier ends.",
            _MOMENT,
        ),
    )
    waits_for_vendors = fields.List(
        fields.String(),
        allow_none=True,
        metadata=about(
            "If the condition is `DEFERRED`: the payment vendors that the first of the lines wait for. Empty "
            "if all wait for accounts.",
            ["stripe"],
        ),
    )
    brake = fields.Nested(
        BrakeAnswerSchema,
        allow_none=True,
        metadata=about("What pauses the batch after too many errors. Null: nothing does.", BRAKE),
    )
    control_totals_differing = fields.Integer(
        allow_none=True,
        metadata=about(
            "How many of the control totals that were given differ from the file. Null: none were given.", 0
        ),
    )
    control_totals_as_given = fields.Boolean(
        allow_none=True,
        metadata=about(
            "Whether no total differs and the whole file could be read. Null: none were given.", True
        ),
    )


class RetryAnswerSchema(BatchProgressAnswerSchema):
    """A batch of which some lines are retried."""

    retried = fields.Integer(metadata=about("Lines that are PENDING again.", 12))
    left = fields.Integer(
        metadata=about("Lines that stay FAILED: they would fail again, or the filter leaves them out.", 988)
    )


class LineResultSchema(AnswerSchema):
    """The outcome of one line of a batch, which is one line of the results."""

    line_number = fields.Integer(metadata=about("Its position in the file, from 1.", 3))
    external_account_number = fields.String(
        allow_none=True,
        metadata=about("The account's number. Null if the line has no valid one.", "100000038"),
    )
    status = fields.String(
        metadata=about("The status of the line.", "FAILED", enum=[status.value for status in LineStatus])
    )
    service_account_number = fields.String(
        allow_none=True, metadata=about("The created account's number, or null.", "A-7KX2M9QD")
    )
    errors = fields.List(
        fields.Nested(LineErrorObjectSchema),
        metadata=about("The errors that the line failed for, each with its path.", [_ERROR]),
    )
    warnings = fields.List(
        fields.Nested(LineErrorObjectSchema),
        metadata=about("The warnings of the line, each with its path.", [_WARNING]),
    )
    staging_result = fields.String(
        allow_none=True,
        metadata=about(
            "What staging its payload did. Null if nothing was staged.",
            "STAGED",
            enum=[*(result.value for result in StagingResult), None],
        ),
    )
