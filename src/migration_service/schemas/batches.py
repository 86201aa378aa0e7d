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
    """The query string for starting a batch."""

    import_supplier = Identifier(
        required=True,
        metadata=about("The import supplier that every line of the batch names.", "DEMO_SUPPLIER"),
    )
    kind = Choice(
        BatchKind,
        load_default=BatchKind.ACCOUNTS.value,
        metadata=about(
            "The kind of the lines. Each line is a request body of the single endpoint.",
            "accounts",
            schema={"type": "string", "enum": [kind.value for kind in BatchKind], "default": "accounts"},
        ),
    )
    mode = Choice(
        BatchMode,
        required=True,
        metadata=about(
            "`validate` and `stage` do the same as the endpoints. `import` stages and creates accounts, "
            "or adds data. `dry-run` does the same as `import` and rolls it back. Only accounts can be "
            "staged.",
            "import",
            schema={"type": "string", "enum": [mode.value for mode in BatchMode]},
        ),
    )
    operations_team_name = Identifier(
        metadata=about(
            "The operations team of the created accounts. Required for `import` and `dry-run` of "
            "accounts, ignored in the other modes, and refused for added data.",
            "Migration Team",
        )
    )
    source = Choice(
        BatchSource,
        load_default=BatchSource.UPLOAD.value,
        metadata=about(
            "`upload`: the lines are in the body. `pending`: there is no body, and the batch has all "
            "pending accounts of the supplier. Only for `import` and `dry-run`.",
            "upload",
            schema={"type": "string", "enum": [it.value for it in BatchSource], "default": "upload"},
        ),
    )

    check_previously_added = Flag(
        metadata=about(
            "Transactions only: skip a transaction that was already added. The default is true.",
            True,
            schema={"type": "boolean"},
        )
    )
    force_add_to_current_statement = Flag(
        metadata=about(
            "Transactions only: if a transaction is outside the open statement period, change its date "
            "instead of failing. The default is true.",
            True,
            schema={"type": "boolean"},
        )
    )
    include_older_versions = Flag(
        metadata=about(
            "With `source=pending`: include accounts whose newer version was refused. The default is false.",
            False,
            schema={"type": "boolean"},
        )
    )
    name = Text(max_length=200, metadata=about("A name to recognise the batch by.", "First night"))
    file_name = Text(max_length=255, metadata=about("The name of the file in the body.", "book.ndjson.gz"))
    profile = Choice(
        Profile,
        metadata=about(
            "The profile to validate the lines under, instead of the supplier's. Only `strict`, unless "
            "the mode is `validate`.",
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
            "At most this many batches, 1 to 500. The Link header leads to the next page.",
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
            "Only lines with this status.",
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
            "Only lines with an error or a warning of this code. CSV has only those errors and warnings.",
            "invalid_phone_number",
        )
    )
    path = Identifier(
        max_length=1_000,
        metadata=about(
            "Only lines with an error or a warning at or below this path. CSV has only those errors and "
            "warnings. `*` stands for any index, as in `customers.*.mobile`.",
            "customers.*.mobile",
        ),
    )


class FailedLinesArgumentsSchema(Fields):
    """The query string for the failed lines of a batch."""

    code = Identifier(
        metadata=about("Only lines with an error or a warning of this code.", "invalid_phone_number")
    )
    path = Identifier(
        max_length=1_000,
        metadata=about("Only lines with an error or a warning at or below this path.", "customers.*.mobile"),
    )


class RetryArgumentsSchema(Fields):
    """The query string of a retry."""

    all = Flag(
        load_default=False,
        metadata=about(
            "Include lines that failed because of their content.",
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
            "Only lines with an error or a warning at or below this path. `*` stands for any index, as in "
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
    name = fields.String(allow_none=True, metadata=about("Its name, if it has one.", "First night"))
    file_name = fields.String(
        allow_none=True, metadata=about("The name of the file with its lines.", "book.ndjson.gz")
    )
    file_sha256 = fields.String(
        allow_none=True,
        metadata=about(
            "The SHA-256 of the file as it was sent, as `sha256sum` prints it. A compressed file is not "
            "unpacked. Null without a file.",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        ),
    )
    file_bytes = fields.Integer(
        allow_none=True, metadata=about("The size of the file as it was sent, in bytes.", 36_412_877)
    )
    kind = fields.String(
        metadata=about("The kind of its lines.", "accounts", enum=[kind.value for kind in BatchKind])
    )
    options = fields.Dict(
        metadata=about(
            "For transactions: the arguments that differ from the default. For pending accounts: "
            "`include_older_versions`.",
            {},
            type="object",
            additionalProperties={"type": "boolean"},
        )
    )
    mode = fields.String(
        metadata=about(
            "The mode in which its lines are processed.", "import", enum=[mode.value for mode in BatchMode]
        )
    )
    profile = fields.String(
        allow_none=True,
        metadata=about("The profile of its lines. Null for the supplier's profile.", "strict"),
    )
    extracted_at = AnsweredMoment(
        allow_none=True, metadata=about("When the supplier extracted its accounts, in UTC.", _MOMENT)
    )
    older_versions = fields.Integer(
        allow_none=True,
        metadata=about(
            "With `source=pending`: the number of accounts that were left out because a newer version "
            "was refused. Otherwise null.",
            None,
        ),
    )
    source = fields.String(
        metadata=about("The source of its lines.", "upload", enum=[source.value for source in BatchSource])
    )
    state = fields.String(metadata=about("Its state.", "RUNNING", enum=[state.value for state in BatchState]))
    reason = fields.String(
        allow_none=True,
        metadata=about(
            "The code of the reason why it is WAITING, PAUSED or STOPPED.", "import_supplier_paused"
        ),
    )
    created_at = AnsweredMoment(metadata=about("When the request started it, in UTC.", _MOMENT))
    started_at = AnsweredMoment(
        allow_none=True, metadata=about("When its first line was started, in UTC.", _MOMENT)
    )
    finished_at = AnsweredMoment(
        allow_none=True, metadata=about("When its last line was finished, in UTC.", _MOMENT)
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
        metadata=about("Numbers of lines by error code, most frequent first.", {"required": 360}, **_COUNTS)
    )
    warning_counts = fields.Dict(
        metadata=about(
            "Numbers of lines by warning code, most frequent first.", {"unknown_field": 12}, **_COUNTS
        )
    )
    staging_counts = fields.Dict(
        metadata=about(
            "Numbers of lines by the result of staging their payload.",
            {"STAGED": 39_988, "REPLACED": 12},
            **_COUNTS,
        )
    )
    rate = fields.Float(
        allow_none=True,
        metadata=about(
            "Lines per second. While the batch is running, the rate is mainly the recent one. Otherwise "
            "it is that of the whole run. It does not include pauses, and outages hardly affect it. Null "
            "if it is not known.",
            1_300.0,
        ),
    )
    time_left = fields.Float(
        allow_none=True,
        metadata=about(
            "The estimated running time left in seconds. It does not include pauses, closed windows or "
            "DEFERRED lines. Null if it is too early for an estimate, or if the batch makes no progress.",
            45.4,
        ),
    )
    time_left_low = fields.Float(
        allow_none=True, metadata=about("The low end of the estimate. It rarely takes less.", 36.0)
    )
    time_left_high = fields.Float(
        allow_none=True, metadata=about("The high end of the estimate. It rarely takes more.", 62.5)
    )
    runs_until = AnsweredMoment(
        allow_none=True,
        metadata=about(
            "When the window of its wave closes, in UTC. No lines are started from then on.", _MOMENT
        ),
    )
    condition = fields.String(
        allow_none=True,
        metadata=about(
            "Why a running batch makes little or no progress. `DEFERRED`: all its open lines wait for an "
            "account or a payment vendor, and are tried again at `next_try_at`. `STALLED`: no line has "
            "been processed for a minute. `THROTTLED`: its lines wait for slots. `STARVING`: its workers "
            "spend most of their time waiting for a processor, because the machine is busy with other work.",
            "THROTTLED",
            enum=[*(condition.value for condition in BatchCondition), None],
        ),
    )
    next_try_at = AnsweredMoment(
        allow_none=True,
        metadata=about(
            "If the condition is `DEFERRED`: when lines are tried next, in UTC, or null if they are "
            "being tried now. They are tried earlier if an import batch of the supplier ends.",
            _MOMENT,
        ),
    )
    waits_for_vendors = fields.List(
        fields.String(),
        allow_none=True,
        metadata=about(
            "If the condition is `DEFERRED`: the payment vendors that the first of the lines wait for. "
            "Empty if they all wait for accounts.",
            ["stripe"],
        ),
    )
    brake = fields.Nested(
        BrakeAnswerSchema,
        allow_none=True,
        metadata=about(
            "The error threshold, which pauses the batch after too many errors. Null if it has none.", BRAKE
        ),
    )
    control_totals_differing = fields.Integer(
        allow_none=True,
        metadata=about("How many control totals differ from the file. Null if none were given.", 0),
    )
    control_totals_as_given = fields.Boolean(
        allow_none=True,
        metadata=about(
            "True if no control total differs and the whole file could be read. Null if none were given.",
            True,
        ),
    )


class RetryAnswerSchema(BatchProgressAnswerSchema):
    """A batch with retried lines."""

    retried = fields.Integer(metadata=about("Lines that are PENDING again.", 12))
    left = fields.Integer(
        metadata=about(
            "Lines that are still FAILED, because they would fail again or the filter leaves them out.", 988
        )
    )


class LineResultSchema(AnswerSchema):
    """The outcome of one line of a batch: a line of the results."""

    line_number = fields.Integer(metadata=about("Its position in the file, from 1.", 3))
    external_account_number = fields.String(
        allow_none=True,
        metadata=about("The account's number. Null if the line does not have a valid one.", "100000038"),
    )
    status = fields.String(
        metadata=about("The status of the line.", "FAILED", enum=[status.value for status in LineStatus])
    )
    service_account_number = fields.String(
        allow_none=True, metadata=about("The created account's number, or null.", "A-7KX2M9QD")
    )
    errors = fields.List(
        fields.Nested(LineErrorObjectSchema),
        metadata=about("The errors that made the line fail, each with its path.", [_ERROR]),
    )
    warnings = fields.List(
        fields.Nested(LineErrorObjectSchema),
        metadata=about("The warnings of the line, each with its path.", [_WARNING]),
    )
    staging_result = fields.String(
        allow_none=True,
        metadata=about(
            "The result of staging its payload. Null if nothing was staged.",
            "STAGED",
            enum=[*(result.value for result in StagingResult), None],
        ),
    )
