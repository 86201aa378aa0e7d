"""The query string, bodies and responses of reconciliation, with the totals of a book."""

from typing import Any

from marshmallow import post_load, validates_schema
from marshmallow.exceptions import ValidationError

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_service.schemas import answers, control_totals
from migration_service.schemas.deciding import decided_by, reason_of
from migration_service.schemas.old_figures import FigureCountsAnswerSchema, only_batch
from migration_service.schemas.requests import ErrorObjectSchema
from migration_service.states import OpenReason, Problem

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_COMPARISON_ID = "019a9c1e-8c11-7d0a-9c52-4b0d5e7a1f02"
_NUMBER = "The account's number in the supplier's system."
_ERROR = {"detail": "This field is required.", "code": "required", "attr": "ledgers.0.ledger_code"}
#: A value of any kind, for OpenAPI.
_ANY = [
    *({"type": kind} for kind in ("string", "number", "boolean", "null")),
    {"type": "array", "items": {"type": "object", "additionalProperties": True}},
    {"type": "object", "additionalProperties": True},
]
_TOTAL = {"measure": "accounts", "staged": 99_999, "created": 99_999}
_NOT_COMPARED = ["the documents themselves: only their paths and locations are compared"]


class ReconciliationArgumentsSchema(Fields):
    """The query string of a reconciliation."""

    batch = only_batch()
    comparison = fields.Scope(
        "The id of a comparison in an answer with status 202: answer with this one, or a later one, instead "
        "of starting another.",
        _COMPARISON_ID,
        parameter={"type": "string", "format": "uuid"},
    )
    full = fields.Flag(
        "Compare all accounts. Otherwise those of which nothing has changed since the kept comparison count "
        "as they did in it.",
        False,
        load_default=False,
    )


class SentAnswerSchema(AnswerSchema):
    """Counts of what was sent, by outcome. Each account number counts once."""

    sent = answers.Integer("The sum of the five numbers that follow.", 100_000)
    refused = answers.Integer("Refused by validation or by the database, with nothing staged.", 1)
    waiting = answers.Integer("On lines that are pending or were only validated, with nothing staged.", 0)
    staged = answers.Integer("Staged and not created, also if a newer version waits.", 0)
    created = answers.Integer("Accounts that exist, also if a newer version waits.", 99_999)
    skipped = answers.Integer("Excluded by operators, or erased.", 0)
    acknowledged = answers.Integer(
        "Acknowledged accounts among those refused, waiting, or created from an older version.", 0
    )
    created_acknowledged = answers.Integer("Of the acknowledged accounts, those that are created.", 0)
    open = answers.Integer(
        "Accounts refused, waiting, staged, or created from an older version, and lines of added data that "
        "are neither added nor skipped, minus those acknowledged.",
        1,
    )
    staged_older_version = answers.Integer("Staged accounts whose newer version was refused.", 0)
    created_older_version = answers.Integer("Created accounts whose newer version was refused.", 0)
    staged_version_waits = answers.Integer("Staged accounts of which a newer version waits.", 0)
    created_version_waits = answers.Integer(
        "Created accounts of which a newer version waits. They count as open.", 0
    )
    added_lines_refused = answers.Integer(
        "Lines of batches of added data that are refused and not acknowledged. They count as open.", 2
    )
    added_lines_waiting = answers.Integer(
        "Lines of batches of added data that nobody has processed. They count as open.", 0
    )
    lines_removed = answers.Integer("Lines that are no longer kept, so it is unknown which were refused.", 0)
    removed_refused = answers.Integer("Those that were refused and open when they were removed.", 0)
    removed_waiting = answers.Integer("Those that were waiting when they were removed.", 0)


class OpenItemAnswerSchema(AnswerSchema):
    """An account, or a line without an account number or of added data, that was sent and is open."""

    external_account_number = answers.String(
        f"{_NUMBER} Null if the line does not have it.", "100000038", allow_none=True
    )
    reason = answers.String("Why it is open.", "REFUSED", words=OpenReason)
    batch_id = answers.UUID(
        "The batch of the newest line that had it. Null for a single request, and for a STAGED account.",
        _BATCH_ID,
        allow_none=True,
    )
    line_number = answers.Integer("The number of that line in its file, from 1.", 17, allow_none=True)
    errors = answers.List(
        ErrorObjectSchema,
        "The errors of that line or request, for as long as they are kept.",
        [_ERROR],
        allow_none=True,
    )
    is_line = answers.Boolean(
        "Whether the line is acknowledged, rather than its account: it has no number, or adds data.", False
    )


class DifferenceAnswerSchema(AnswerSchema):
    """The staged and the created value of a measure, for one account or for all accounts."""

    measure = answers.String(
        "The measure: a count, or an amount in euros, or in euro cents if it says so.", "statements"
    )
    staged = answers.Float("Its value in the staged payloads.", 2)
    created = answers.Sum("Its value in the created accounts.", 1)


class ValueDifferenceAnswerSchema(AnswerSchema):
    """A value of an account that differs from the staged one."""

    path = answers.String(
        "Its path in the payload. Amounts are in the unit of this field: a gross_amount in euro cents, all "
        "others in euros.",
        "statements.0.gross_amount",
    )
    staged = answers.Raw(
        "The staged value, or the whole row. Null if the payload does not have it.",
        4928,
        openapi={"anyOf": _ANY},
    )
    created = answers.Raw(
        "The value of the account, or the whole row. Null if it does not have it.",
        5928,
        openapi={"anyOf": _ANY},
    )


class AccountDifferenceAnswerSchema(AnswerSchema):
    """A created account that differs from what was staged."""

    external_account_number = answers.String(_NUMBER, "100000046")
    service_account_number = answers.String("The created account's number.", "A-7KX2M9QD", allow_none=True)
    differences = answers.List(
        DifferenceAnswerSchema, "Each measure that differs. None if only values differ."
    )
    values = answers.List(ValueDifferenceAnswerSchema, "Each value that differs.")


class RunningComparisonAnswerSchema(AnswerSchema):
    """How far a comparison is."""

    id = answers.UUID("Its id.", _COMPARISON_ID)
    started_at = answers.Moment("When it began, in UTC.", "2026-03-01T10:15:00Z")
    items = answers.Integer("The number of accounts and lines to compare.", 400_000)
    done = answers.Integer("How many of them have been compared.", 120_000)
    time_left = answers.Float(
        "The seconds that it is expected to take. Null at first.", 95.5, allow_none=True
    )


class ComparingAnswerSchema(AnswerSchema):
    """A comparison that takes longer than a request."""

    comparison = answers.Nested(RunningComparisonAnswerSchema, "The comparison.")


class LineAnswerSchema(AnswerSchema):
    """A line of a batch."""

    batch_id = answers.UUID("The batch.", _BATCH_ID)
    line_number = answers.Integer("The number of the line in its file, from 1.", 17)


class ProblemAnswerSchema(AnswerSchema):
    """Why a book is not clean."""

    problem = answers.String("What is wrong.", "OPEN", words=Problem)
    number = answers.Integer("The number of accounts and lines, or of totals or files of the book.", 1)


class BookTotalAnswerSchema(AnswerSchema):
    """One measure of a book, by outcome. Amounts are in euros."""

    measure = answers.String("The measure: a count, or an amount in euros.", "balance of ENERGY_LEDGER")
    given = answers.Float("The supplier's control total. Null if there is none.", -1204.55, allow_none=True)
    file = answers.Float(
        "The total of all lines of the file. Null without `batch`.", -1204.55, allow_none=True
    )
    difference = answers.Float("`file` minus `given`, or null.", 0.0, allow_none=True)
    refused = answers.Float("The total of refused accounts and lines, as far as they can be read.", 12.30)
    waiting = answers.Float("The total of lines that wait, as far as they can be read.", 0.0)
    acknowledged = answers.Float("The part of `refused` and `waiting` that was acknowledged.", 0.0)
    repeated = answers.Float(
        "The total of lines that repeat the account of an earlier line of the file.", 0.0
    )
    staged = answers.Float("The total of accounts that are staged but not created.", 0.0)
    skipped = answers.Float("The total of accounts that operators excluded.", 0.0)
    created = answers.Sum("The total of created accounts, without data that was added later.", -1216.85)
    unaccounted = answers.Sum(
        "`file` minus what is refused, waiting, repeated, staged, skipped and created. Null without `batch`, "
        "and once its lines were removed. It differs from 0 if other batches or requests sent other values "
        "for the accounts.",
        0.0,
        allow_none=True,
    )


class SentBookAnswerSchema(AnswerSchema):
    """A file of accounts that was sent."""

    batch_id = answers.UUID("The id of its batch.", _BATCH_ID)
    file_name = answers.String("Its name.", "book.ndjson.gz", allow_none=True)
    file_sha256 = answers.String(
        "The SHA-256 of the file as it was sent.",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        allow_none=True,
    )
    file_bytes = answers.Integer("Its size in bytes as it was sent.", 36_412_877, allow_none=True)
    control_totals_differing = control_totals.DIFFERING
    control_totals_as_given = control_totals.AS_GIVEN
    is_superseded = answers.Boolean(
        "Whether its control totals do not match, but later files have all of its accounts.", False
    )


class BookTotalsAnswerSchema(AnswerSchema):
    """The totals of a book: the supplier's, those of the file, and those of each outcome."""

    totals = answers.List(BookTotalAnswerSchema, "A row for each measure.")
    given = answers.Boolean(
        "Whether the supplier gave control totals. Null if `batch` is absent or has no file.",
        True,
        allow_none=True,
    )
    differing = answers.Integer("How many of them differ from the file, or null.", 0, allow_none=True)
    as_given = answers.Boolean(
        "True if none of them differs and the whole file could be read, or null.", True, allow_none=True
    )
    has_other_versions = answers.Boolean(
        "Whether other batches or requests sent versions of the accounts of the batch, or one was erased, so "
        "that values may be unaccounted for without a fault.",
        False,
    )
    unreadable_lines = answers.Integer(
        "Refused, waiting and repeated lines that cannot be read. They count only as accounts.", 0
    )
    unreadable_amounts = answers.Integer("Unreadable amounts on these lines. They are in no total.", 0)
    files = answers.List(
        SentBookAnswerSchema, "The newest 50 files of accounts, or with `batch` only its file."
    )


class ReconciliationAnswerSchema(AnswerSchema):
    """What was sent, what is open, and how created accounts differ from what was staged."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    sent = answers.Nested(SentAnswerSchema, "What was sent, by outcome.")
    open = answers.List(
        OpenItemAnswerSchema,
        "Items that are neither created in their newest version nor skipped nor acknowledged.",
    )
    book = answers.Nested(
        BookTotalsAnswerSchema,
        "Accounts, balances, transactions and statements by outcome, with the supplier's control "
        "totals. Null for a batch of added data.",
        allow_none=True,
    )
    differences = answers.List(
        AccountDifferenceAnswerSchema, "The created accounts that differ from what was staged."
    )
    totals = answers.List(DifferenceAnswerSchema, "Each measure over all created accounts.", [_TOTAL])
    compared = answers.Integer("Created accounts whose values were all compared with the payload.", 99_998)
    not_comparable = answers.Integer(
        "Created accounts that cannot be compared, because they were erased, or differed when their payload "
        "was removed.",
        1,
    )
    not_comparable_lines = answers.Integer("Added lines without a readable text. They are not compared.", 0)
    lines_not_comparable = answers.List(LineAnswerSchema, "The first hundred of them.", [])
    not_compared = answers.List(answers.String, "A description of what is not compared.", _NOT_COMPARED)
    differing = answers.Integer("The number of created accounts that differ.", 1)
    old_figures = answers.List(
        FigureCountsAnswerSchema, "How the figures of the old system compare. Empty if there are none."
    )
    compared_from = answers.Moment(
        "When the comparison began, in UTC.", "2026-03-01T10:15:00Z", allow_none=True
    )
    compared_at = answers.Moment("When it ended, in UTC.", "2026-03-01T10:15:02Z", allow_none=True)
    created_since = answers.Integer("Accounts created since it began.", 0)
    undone_since = answers.Integer("Accounts undone since it began.", 0)
    problems = answers.List(ProblemAnswerSchema, "Why it is not clean. Empty if it is.")
    created_clean = answers.Boolean(
        "Whether something was compared, every created account was, and none differs.", False
    )
    complete = answers.Boolean("Whether nothing is open, and nothing that was open has been removed.", False)
    clean = answers.Boolean("Whether there are no problems.", False)


class AcknowledgementBodySchema(CommandFields):
    """The body for acknowledging what was refused."""

    reason = fields.Identifier(
        "Why they are not migrated. It is kept in the audit: no personal data.",
        "Moved to another supplier before the migration.",
        required=True,
        max_length=1_000,
    )
    by = decided_by()
    external_account_numbers = fields.Values(
        fields.Identifier(), "The accounts to acknowledge.", ["100000038"]
    )
    batch = fields.Scope("The batch with the lines without a number, or of added data.", _BATCH_ID)
    line_numbers = fields.Values(
        fields.WholeNumber(),
        "Lines of that batch. By default all of its lines without a number, or its open lines of added data.",
        [17],
    )

    @validates_schema(skip_on_field_errors=True)
    def check_target(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require either account numbers or a batch, which may have line numbers."""
        if bool(data.get("external_account_numbers")) == ("batch" in data):
            message = "Expected either external_account_numbers or a batch."
            raise ValidationError(fields.Message(message, "required"), "external_account_numbers")
        if "line_numbers" in data and "batch" not in data:
            raise ValidationError(fields.Message("Give the batch of these lines.", "required"), "batch")

    @post_load
    def make_tuples(self, data: dict[str, Any], **_kwargs: Any) -> dict[str, Any]:
        """Leave out an empty list of account numbers."""
        return {name: value for name, value in data.items() if value not in (None, [])}


class AcknowledgedAnswerSchema(AnswerSchema):
    """How many accounts or lines were acknowledged."""

    acknowledged = answers.Integer("Accounts or lines that were acknowledged.", 2)


class AcknowledgementAnswerSchema(AnswerSchema):
    """An acknowledgement."""

    external_account_number = answers.String(
        f"{_NUMBER} Null for a line without one.", "100000038", allow_none=True
    )
    batch_id = answers.UUID("The batch of a line without a number, or null.", _BATCH_ID, allow_none=True)
    line_number = answers.Integer("The number of that line in its file, or null.", 17, allow_none=True)
    reason = answers.String("Why it is not migrated.", "Moved to another supplier before the migration.")
    acknowledged_by = answers.String("Who decided, or the name of the API key that was used.", "Migration")
    acknowledged_at = answers.Moment("When, in UTC.", "2026-03-01T10:15:00Z")


class ReceiptArgumentsSchema(Fields):
    """The query string of a receipt."""

    batch = fields.Scope("The receipt of this batch, instead of the whole supplier.", _BATCH_ID)


class ReceiptExceptionBodySchema(CommandFields):
    """Something of a receipt that is accepted."""

    problem = fields.Choice(Problem, "The problem that is accepted.", "DIFFERING", required=True)
    external_account_number = fields.NormalIdentifier(
        "Of DIFFERING: only this account. Without it, everything that the problem concerns.", "10000003"
    )
    batch = fields.Scope("In the receipt of this batch, instead of the whole supplier.", _BATCH_ID)
    reason = reason_of("The meter was replaced meanwhile.", "Why.")
    by = decided_by()


class ReceiptExceptionAnswerSchema(AnswerSchema):
    """An exception of a receipt."""

    problem = answers.String("The problem.", "DIFFERING", words=Problem)
    number = answers.Integer("How many accounts, lines, measures or files it concerned.", 1)
    external_account_number = answers.String("The account, or null for all.", "10000003", allow_none=True)
    reason = answers.String("Why it was accepted.", "The meter was replaced meanwhile.")
    accepted_by = answers.String("Who accepted it.", "Grace")
    created_at = answers.Moment("When, in UTC.", "2027-02-28T15:00:00Z")


class ReceiptFileAnswerSchema(AnswerSchema):
    """A file of a receipt."""

    batch_id = answers.UUID("The batch that took it in.", _BATCH_ID)
    file_name = answers.String("Its name.", "book.ndjson", allow_none=True)
    sha256 = answers.String("The SHA-256 of its bytes, in hexadecimal.", "9f86d081884c7d65" * 4)
    lines = answers.Integer("The number of its lines.", 1_000)


class ReceiptTotalAnswerSchema(AnswerSchema):
    """A sum over the compared accounts."""

    measure = answers.String("What is counted or added up.", "ledger_balances")
    staged = answers.String("As staged: a number, exact to the cent.", "-1204.55")
    created = answers.String("As created.", "-1204.55")


class ReceiptAnswerSchema(AnswerSchema):
    """A receipt: a kept comparison, and what was accepted of it."""

    import_supplier = answers.String("Code of the import supplier.", "DEMO_SUPPLIER")
    batch_id = answers.UUID("The batch, or null for the whole supplier.", _BATCH_ID, allow_none=True)
    comparison_id = answers.UUID("The comparison. Null before the first one.", _BATCH_ID, allow_none=True)
    compared_at = answers.Moment("When it ended, in UTC.", "2027-02-28T14:00:00Z", allow_none=True)
    clean = answers.Boolean("Whether there is no problem.", False)
    problems = answers.List(ProblemAnswerSchema, "Why it is not clean.")
    open = answers.List(ProblemAnswerSchema, "The problems that no exception covers.", [])
    exceptions = answers.List(ReceiptExceptionAnswerSchema, "What was accepted.")
    sent = answers.Integer("Accounts and lines that were sent.", 1_000)
    created = answers.Integer("Accounts of them that were created.", 999)
    compared = answers.Integer("Created accounts whose values were all compared.", 999)
    totals = answers.List(ReceiptTotalAnswerSchema, "Counts and sums, as staged and as created.")
    files = answers.List(ReceiptFileAnswerSchema, "The files. Of a wave, those of its supplier.")
