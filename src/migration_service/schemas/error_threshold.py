"""The error thresholds of batches: parameters and reports."""

from typing import Any

from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_payloads.schemas.fields import Text, WholeNumber
from migration_service.schemas import answers

_LINES: dict[str, Any] = {"type": "integer", "minimum": 1, "maximum": 10_000}

#: An example of an error threshold in a report.
ERROR_THRESHOLD: dict[str, Any] = {
    "stop_after_errors": "50%",
    "stop_min_lines": 200,
    "stop_window_lines": 200,
    "stop_ignore_codes": [],
    "stop_count_warnings": ["ledger_missing"],
    "lines": 230,
    "errors": 4,
    "codes": {"ledger_missing": 3, "invalid_phone_number": 1},
}
#: The parameters that starting a batch and setting its error threshold share.
STOP_MIN_LINES = WholeNumber(
    "A percentage applies only after this many lines. The default is the window, or 200.",
    200,
    parameter=_LINES,
)
STOP_WINDOW_LINES = WholeNumber(
    "Count only the chunks processed last that together have this many lines. By default every line counts.",
    200,
    parameter=_LINES,
)
STOP_IGNORE_CODES = Text(
    "Error codes, separated by commas. A line with no other error codes does not count.",
    "duplicate_line_in_batch",
    max_length=5_000,
)
STOP_COUNT_WARNINGS = Text(
    "Warning codes, separated by commas. A line with one of them counts as failed.",
    "ledger_missing",
    max_length=5_000,
)


def stop_after_errors(*, required: bool) -> Text:
    """Return the parameter for the error threshold."""
    usual = "" if required else " By default `50%` of the last 200 lines for mode `import`, otherwise `off`."
    return Text(
        "Pause the batch after this many failed lines, or if more than this percentage of its lines "
        f"fails. `off`: never.{usual}",
        "5%",
        required=required,
        max_length=20,
        parameter={"type": "string", "pattern": r"^([1-9]\d{0,8}|\d{1,2}(\.\d{1,2})?%|off)$"},
    )


class ErrorThresholdArgumentsSchema(Fields):
    """The query string for setting the error threshold of a batch."""

    stop_after_errors = stop_after_errors(required=True)
    stop_min_lines = STOP_MIN_LINES
    stop_window_lines = STOP_WINDOW_LINES
    stop_ignore_codes = STOP_IGNORE_CODES
    stop_count_warnings = STOP_COUNT_WARNINGS


class WaveBrakeAnswerSchema(AnswerSchema):
    """The error threshold of a wave. The batch's report has the current counts."""

    stop_after_errors = answers.String(
        "The number of failed lines, or the percentage that they must exceed.", "50%"
    )
    stop_min_lines = answers.Integer("A percentage applies only after this many lines.", 200, allow_none=True)
    stop_window_lines = answers.Integer(
        "The number of lines in the window. Null if every line counts.", 200, allow_none=True
    )
    stop_ignore_codes = answers.List(
        answers.String, "A line with no other error codes does not count.", ["duplicate_line_in_batch"]
    )
    stop_count_warnings = answers.List(
        answers.String, "A line with one of these warnings also counts.", ["ledger_missing"]
    )


class BrakeAnswerSchema(WaveBrakeAnswerSchema):
    """The error threshold of a batch."""

    lines = answers.Integer(
        "Lines with an outcome that count now: those in the window since the batch was last resumed "
        "or retried.",
        230,
    )
    errors = answers.Integer(
        "How many of these lines failed or have a warning that counts. Each line counts once.", 4
    )
    codes = answers.Dict(
        "How many of these lines have each code that counts.",
        {"ledger_missing": 3, "invalid_phone_number": 1},
        openapi={"type": "object", "additionalProperties": {"type": "integer"}},
    )
