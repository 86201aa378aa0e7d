"""The part of the reconciliation response with the totals of a book."""

from migration_payloads.schemas.base import AnswerSchema
from migration_service.schemas import answers

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"


class BookTotalAnswerSchema(AnswerSchema):
    """One measure of a book, by outcome. Amounts are in euros."""

    measure = answers.String("The measure.", "balance of ENERGY_LEDGER")
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
        "`file` minus what is refused, waiting, repeated, staged, skipped and created. Null without "
        "`batch`. It differs from 0 if other batches or requests sent other values for the accounts.",
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
    control_totals_differing = answers.Integer(
        "How many control totals differ from the file. Null if none were given.", 0, allow_none=True
    )
    control_totals_as_given = answers.Boolean(
        "True if no control total differs and the whole file could be read. Null if none were given.",
        True,
        allow_none=True,
    )
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
        "Whether other batches or requests sent versions of the accounts of the batch.", False
    )
    unreadable_lines = answers.Integer(
        "Refused, waiting and repeated lines that cannot be read. They count only as accounts.", 0
    )
    unreadable_amounts = answers.Integer("Unreadable amounts on these lines. They are in no total.", 0)
    files = answers.List(
        SentBookAnswerSchema, "The newest 50 files of accounts, or with `batch` only its file."
    )
