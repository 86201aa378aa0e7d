"""Query strings and answers of the endpoints for batches and reconciliation."""

from marshmallow import fields

from migration_service.schemas.base import Fields
from migration_service.schemas.fields import Choice, Flag, Identifier, Text, WholeNumber
from migration_service.states import BatchCondition, BatchMode, BatchSource, BatchState, LineStatus, Profile

_COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}


class BatchArgumentsSchema(Fields):
    """The query string that starts a batch."""

    import_supplier = Identifier(
        required=True, metadata={"description": "The import supplier that every line of the batch names."}
    )
    mode = Choice(
        BatchMode,
        required=True,
        metadata={
            "description": "`validate`; `stage`; `import` stages and creates; `dry-run` is the same, undone.",
            "schema": {"type": "string", "enum": [mode.value for mode in BatchMode]},
        },
    )
    operations_team_name = Identifier(
        metadata={"description": "The team of the created accounts; required for `import` and `dry-run`."}
    )
    source = Choice(
        BatchSource,
        load_default=BatchSource.UPLOAD.value,
        metadata={
            "description": "`upload`: the lines are the body. `pending`: no body; everything that the "
            "supplier has pending, for `import` and `dry-run`.",
            "schema": {"type": "string", "enum": [it.value for it in BatchSource], "default": "upload"},
        },
    )

    name = Text(max_length=200, metadata={"description": "What people call the batch; shown wherever it is."})
    file_name = Text(max_length=255, metadata={"description": "The name of the file that is the body."})
    profile = Choice(
        Profile,
        metadata={
            "description": "Validate the lines under this profile instead of the supplier's own. Only "
            "`strict`, unless the mode is `validate`.",
            "schema": {"type": "string", "enum": [profile.value for profile in Profile]},
        },
    )


class BatchListArgumentsSchema(Fields):
    """The query string of the list of batches."""

    import_supplier = Identifier(metadata={"description": "Only batches of this import supplier."})
    limit = WholeNumber(
        load_default=50,
        metadata={
            "description": "At most so many batches, 1 to 500; the Link header leads to the next page.",
            "schema": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
        },
    )
    cursor = Identifier(metadata={"description": "Where the page starts: taken from the Link header."})


class ResultArgumentsSchema(Fields):
    """The query string of the results of a batch."""

    status = Choice(
        LineStatus,
        metadata={
            "description": "Only lines in this status.",
            "schema": {"type": "string", "enum": [status.value for status in LineStatus]},
        },
    )

    code = Identifier(
        metadata={"description": "Only lines with an error or a warning of this code; in CSV, only those."}
    )
    path = Identifier(
        max_length=1_000,
        metadata={
            "description": "Only lines with an error or a warning at this path or below it; in CSV, only "
            "those. `*` stands for any index, as in `customers.*.mobile`."
        },
    )


class FailedLinesArgumentsSchema(Fields):
    """The query string of the failed lines of a batch."""

    code = Identifier(metadata={"description": "Only lines with an error or a warning of this code."})
    path = Identifier(
        max_length=1_000,
        metadata={"description": "Only lines with an error or a warning at this path or below it."},
    )


class RetryArgumentsSchema(Fields):
    """The query string of a retry."""

    all = Flag(
        load_default=False,
        metadata={
            "description": "Also the lines that failed for their content, although nothing changed.",
            "schema": {"type": "boolean", "default": False},
        },
    )


class BatchAnswerSchema(Fields):
    """A batch and how far it is."""

    batch_id = fields.UUID()
    import_supplier = fields.String()
    operations_team_name = fields.String(allow_none=True)
    name = fields.String(allow_none=True, metadata={"description": "What people call it."})
    file_name = fields.String(
        allow_none=True, metadata={"description": "The name of the file that its lines came in."}
    )
    mode = fields.String(metadata={"enum": [mode.value for mode in BatchMode]})
    profile = fields.String(
        allow_none=True,
        metadata={"description": "What its lines are validated under; null: the supplier's own profile."},
    )
    source = fields.String(metadata={"enum": [source.value for source in BatchSource]})
    state = fields.String(metadata={"enum": [state.value for state in BatchState]})
    reason = fields.String(
        allow_none=True, metadata={"description": "The code that says why it is WAITING or STOPPED."}
    )
    created_at = fields.DateTime()
    started_at = fields.DateTime(allow_none=True)
    finished_at = fields.DateTime(allow_none=True)
    lines_removed_at = fields.DateTime(
        allow_none=True, metadata={"description": "When the lines and results were removed."}
    )
    lines = fields.Integer(metadata={"description": "Lines that are not blank."})
    counts = fields.Dict(metadata={"description": "Lines by status.", **_COUNTS})


class BatchProgressAnswerSchema(BatchAnswerSchema):
    """A batch with everything that there is to say about it."""

    error_counts = fields.Dict(
        metadata={"description": "Lines by the codes of their errors, the most frequent first.", **_COUNTS}
    )
    warning_counts = fields.Dict(metadata={"description": "The same of warnings.", **_COUNTS})
    rate = fields.Float(
        allow_none=True, metadata={"description": "Lines a second: lately, or on the whole once it is over."}
    )
    time_left = fields.Float(allow_none=True, metadata={"description": "In seconds, at this rate."})
    condition = fields.String(
        allow_none=True,
        metadata={
            "description": "Why a running batch does not get on. `STALLED`: no line was worked on for a "
            "minute. `THROTTLED`: its lines wait for slots.",
            "enum": [*(condition.value for condition in BatchCondition), None],
        },
    )


class RetryAnswerSchema(BatchProgressAnswerSchema):
    """A batch some of whose lines are tried again."""

    retried = fields.Integer(metadata={"description": "Lines that are PENDING again."})
    left = fields.Integer(
        metadata={"description": "Lines that stay FAILED: they would fail for their content again."}
    )
