"""Query strings and responses of the endpoints for batches."""

from migration_payloads.profile import Profile
from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_service import states
from migration_service.schemas import answers, control_totals, error_threshold
from migration_service.schemas.extracts import extract_moment
from migration_service.schemas.requests import LineErrorObjectSchema

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

    import_supplier = fields.Identifier(
        "The import supplier that every line of the batch names.", "DEMO_SUPPLIER", required=True
    )
    kind = fields.Choice(
        states.BatchKind,
        "The kind of the lines. Each line is a request body of the single endpoint.",
        "accounts",
        load_default=states.BatchKind.ACCOUNTS.value,
    )
    mode = fields.Choice(
        states.BatchMode,
        "`validate` and `stage` do the same as the endpoints. `import` stages and creates accounts, "
        "or adds data. `dry-run` does the same as `import` and rolls it back. Only accounts can be "
        "staged.",
        "import",
        required=True,
    )
    operations_team_name = fields.Identifier(
        "The operations team of the created accounts. Required for `import` and `dry-run` of "
        "accounts, ignored in the other modes, and refused for added data.",
        "Migration Team",
    )
    source = fields.Choice(
        states.BatchSource,
        "`upload`: the lines are in the body. `pending`: there is no body, and the batch has all "
        "pending accounts of the supplier. Only for `import` and `dry-run`.",
        "upload",
        load_default=states.BatchSource.UPLOAD.value,
    )

    check_previously_added = fields.Flag(
        "Transactions only: skip a transaction that was already added. The default is true.", True
    )
    force_add_to_current_statement = fields.Flag(
        "Transactions only: if a transaction is outside the open statement period, change its date "
        "instead of failing. The default is true.",
        True,
    )
    include_older_versions = fields.Flag(
        "With `source=pending`: include accounts whose newer version was refused. The default is false.",
        False,
    )
    replace = fields.Choice(
        states.Replace,
        "Accounts only, in modes `import` and `dry-run`: create accounts that exist and differ again, under "
        "the same number, with what was added to them since. With `source=pending`, these are the accounts "
        "whose newest version was sent and not taken. The key needs the scope `replace`.",
        "differing",
    )
    name = fields.Text("A name to recognise the batch by.", "First night", max_length=200)
    file_name = fields.Text("The name of the file in the body.", "book.ndjson.gz", max_length=255)
    profile = fields.Choice(
        Profile,
        "The profile to validate the lines under, instead of the supplier's. Only `strict`, unless "
        "the mode is `validate`.",
        "strict",
    )
    extracted_at = extract_moment()
    stop_after_errors = error_threshold.stop_after_errors(required=False)
    stop_min_lines = error_threshold.STOP_MIN_LINES
    stop_window_lines = error_threshold.STOP_WINDOW_LINES
    stop_ignore_codes = error_threshold.STOP_IGNORE_CODES
    stop_count_warnings = error_threshold.STOP_COUNT_WARNINGS


class FailedLinesArgumentsSchema(Fields):
    """The query string for the failed lines of a batch."""

    code = fields.Scope("Only lines with an error or a warning of this code.", "invalid_phone_number")
    path = fields.Scope(
        "Only lines with an error or a warning at or below this path. `*` stands for any index, as in "
        "`customers.*.mobile`.",
        "customers.*.mobile",
        max_length=1_000,
    )


class ResultArgumentsSchema(FailedLinesArgumentsSchema):
    """The query string of the results of a batch."""

    status = fields.Choice(states.LineStatus, "Only lines with this status.", "FAILED")
    staging_result = fields.Choice(
        states.StagingResult, "Only lines whose payload was staged with this result.", "REPLACED"
    )


class RetryArgumentsSchema(FailedLinesArgumentsSchema):
    """The query string of a retry."""

    all = fields.Flag("Include lines that failed because of their content.", False, load_default=False)


class BatchAnswerSchema(AnswerSchema):
    """A batch with its counts."""

    batch_id = answers.UUID("The id of the batch.", _BATCH_ID)
    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    operations_team_name = answers.String(
        "The team of the created accounts.", "Migration Team", allow_none=True
    )
    name = answers.String("Its name, if it has one.", "First night", allow_none=True)
    file_name = answers.String("The name of the file with its lines.", "book.ndjson.gz", allow_none=True)
    file_sha256 = answers.String(
        "The SHA-256 of the file as it was sent, as `sha256sum` prints it. A compressed file is not "
        "unpacked. Null without a file.",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        allow_none=True,
    )
    file_bytes = answers.Integer(
        "The size of the file as it was sent, in bytes.", 36_412_877, allow_none=True
    )
    kind = answers.String("The kind of its lines.", "accounts", words=states.BatchKind)
    options = answers.Dict(
        "For transactions: the arguments that differ from the default. For pending accounts: "
        "`include_older_versions`.",
        {},
        openapi={"type": "object", "additionalProperties": {"type": "boolean"}},
    )
    mode = answers.String("The mode in which its lines are processed.", "import", words=states.BatchMode)
    profile = answers.String(
        "The profile of its lines. Null for the supplier's profile.", "strict", allow_none=True
    )
    extracted_at = answers.Moment(
        "When the supplier extracted its accounts, in UTC.", _MOMENT, allow_none=True
    )
    older_versions = answers.Integer(
        "With `source=pending`: the number of accounts that were left out because a newer version "
        "was refused. Otherwise null.",
        None,
        allow_none=True,
    )
    source = answers.String("The source of its lines.", "upload", words=states.BatchSource)
    state = answers.String("Its state.", "RUNNING", words=states.BatchState)
    reason = answers.String(
        "The code of the reason why it is WAITING, PAUSED or STOPPED.",
        "import_supplier_paused",
        allow_none=True,
    )
    created_at = answers.Moment("When the request started it, in UTC.", _MOMENT)
    started_at = answers.Moment(
        "When its first line was started, or retried after the batch had ended, in UTC.",
        _MOMENT,
        allow_none=True,
    )
    finished_at = answers.Moment("When its last line was finished, in UTC.", _MOMENT, allow_none=True)
    lines_removed_at = answers.Moment(
        "When the lines and results were removed, in UTC.", _MOMENT, allow_none=True
    )
    lines = answers.Integer("Lines that are not blank.", 100_000)
    counts = answers.Counts("Lines by status.", {"PENDING": 60_000, "IMPORTED": 40_000})
    undone = answers.Integer("Accounts of its lines that were undone, and do not exist now.", 0)


class BatchProgressAnswerSchema(BatchAnswerSchema):
    """The full report of a batch."""

    error_counts = answers.Counts("Numbers of lines by error code, most frequent first.", {"required": 360})
    warning_counts = answers.Counts(
        "Numbers of lines by warning code, most frequent first.", {"unknown_field": 12}
    )
    staging_counts = answers.Counts(
        "Numbers of lines by the result of staging their payload.", {"STAGED": 39_988, "REPLACED": 12}
    )
    rate = answers.Float(
        "Lines per second. While the batch is running, the rate is mainly the recent one. Otherwise "
        "it is that of the whole run. It does not include pauses, and outages hardly affect it. Null "
        "if it is not known.",
        1_300.0,
        allow_none=True,
    )
    time_left = answers.Float(
        "The estimated running time left in seconds. It does not include pauses, closed windows or "
        "DEFERRED lines. Null if it is too early for an estimate, or if the batch makes no progress.",
        45.4,
        allow_none=True,
    )
    time_left_low = answers.Float("The low end of the estimate. It rarely takes less.", 36.0, allow_none=True)
    time_left_high = answers.Float(
        "The high end of the estimate. It rarely takes more.", 62.5, allow_none=True
    )
    runs_until = answers.Moment(
        "When the window of its wave closes, in UTC. No lines are started from then on.",
        _MOMENT,
        allow_none=True,
    )
    condition = answers.String(
        "Why a running batch makes little or no progress. `DEFERRED`: all its open lines wait for an "
        "account or a payment vendor, and are tried again at `next_try_at`. `STALLED`: no line has "
        "been processed for a minute. `THROTTLED`: its lines wait for slots. `STARVING`: its workers "
        "spend most of their time waiting for a processor, because the machine is busy with other work.",
        "THROTTLED",
        allow_none=True,
        words=states.BatchCondition,
    )
    next_try_at = answers.Moment(
        "If the condition is `DEFERRED`: when lines are tried next, in UTC, or null if they are "
        "being tried now. They are tried earlier if an import batch of the supplier ends.",
        _MOMENT,
        allow_none=True,
    )
    waits_for_vendors = answers.List(
        answers.String,
        "If the condition is `DEFERRED`: the payment vendors that the first of the lines wait for. "
        "Empty if they all wait for accounts.",
        ["stripe"],
        allow_none=True,
    )
    brake = answers.Nested(
        error_threshold.BrakeAnswerSchema,
        "The error threshold, which pauses the batch after too many errors. Null if it has none.",
        error_threshold.ERROR_THRESHOLD,
        allow_none=True,
    )
    control_totals_differing = control_totals.DIFFERING
    control_totals_as_given = control_totals.AS_GIVEN


class RetryAnswerSchema(BatchProgressAnswerSchema):
    """A batch with retried lines."""

    retried = answers.Integer("Lines that are PENDING again.", 12)
    left = answers.Integer(
        "Lines that are still FAILED, because they would fail again or the filter leaves them out.", 988
    )


class LineResultSchema(AnswerSchema):
    """The outcome of one line of a batch: a line of the results."""

    line_number = answers.Integer("Its position in the file, from 1.", 3)
    external_account_number = answers.String(
        "The account's number. Null if the line does not have a valid one.", "100000038", allow_none=True
    )
    status = answers.String("The status of the line.", "FAILED", words=states.LineStatus)
    service_account_number = answers.String(
        "The created account's number, or null.", "A-7KX2M9QD", allow_none=True
    )
    errors = answers.List(
        LineErrorObjectSchema, "The errors that made the line fail, each with its path.", [_ERROR]
    )
    warnings = answers.List(
        LineErrorObjectSchema, "The warnings of the line, each with its path.", [_WARNING]
    )
    staging_result = answers.String(
        "The result of staging its payload. Null if nothing was staged.",
        "STAGED",
        allow_none=True,
        words=states.StagingResult,
    )
