"""The query string and responses of the comparison of two batches."""

from migration_payloads.schemas.base import AnswerSchema, Fields
from migration_payloads.schemas.fields import Choice
from migration_service.schemas import answers
from migration_service.states import AccountChange, CodeChange

_CHANGES = [change.value for change in AccountChange]
_BEFORE, _AFTER = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11", "019aa5d2-11c8-7d40-9b02-5e1f7c3a9d42"
_COUNTS = {
    "newly_broken": (4, "Accounts that passed in the first batch and fail in the second one."),
    "mended": (632, "Accounts that failed in the first batch and pass in the second one."),
    "still_broken": (8, "Accounts that fail in both."),
    "added_broken": (0, "Accounts that only the second batch has, and that fail there."),
    "removed_broken": (0, "Accounts that only the first batch has, and that failed there."),
    "passed": (99_356, "Accounts that pass in both."),
    "added": (0, "Accounts that only the second batch has, and that pass there."),
    "removed": (0, "Accounts that only the first batch has, and that passed there."),
    "undecided": (
        0,
        "Accounts that have a line without an outcome, and have not failed, in one of the batches.",
    ),
    "unnumbered_before": (1, "Lines of the first batch without an account number."),
    "unnumbered_after": (0, "Lines of the second batch without an account number."),
}


class ChangedAccountsArgumentsSchema(Fields):
    """The query string of the accounts that changed."""

    change = Choice(AccountChange, "Only accounts with this change.", "NEWLY_BROKEN")


class ComparedCodeAnswerSchema(AnswerSchema):
    """A code, with the number of lines in each batch that have it."""

    severity = answers.String(
        "Whether it is an error or a warning code.", "error", words=["error", "warning"]
    )
    code = answers.String("The code.", "invalid_phone_number")
    before = answers.Integer("Lines of the first batch that have it.", 640)
    after = answers.Integer("Lines of the second batch that have it.", 12)
    change = answers.String("What changed.", "SHRANK", words=CodeChange)


ComparedAccountsAnswerSchema = AnswerSchema.from_dict(
    {name: answers.Integer(text, number) for name, (number, text) in _COUNTS.items()},
    name="ComparedAccountsAnswerSchema",
)


class ComparisonAnswerSchema(AnswerSchema):
    """The differences between two batches."""

    before = answers.UUID("The first batch.", _BEFORE)
    after = answers.UUID("The second batch.", _AFTER)
    codes = answers.List(
        ComparedCodeAnswerSchema,
        "Every code of the two batches: errors before warnings, most frequent first.",
    )
    accounts = answers.Nested(ComparedAccountsAnswerSchema, "The number of accounts with each change.")


class ComparedAccountAnswerSchema(AnswerSchema):
    """An account that fails in at least one of the batches."""

    external_account_number = answers.String("The number of the account.", "100000038")
    change = answers.String("What changed.", "NEWLY_BROKEN", words=_CHANGES)
    before_line = answers.Integer(
        "Its line in the first batch, or the first one that failed, or null.", 38, allow_none=True
    )
    before_codes = answers.List(answers.String, "The codes of its errors in the first batch.", [])
    after_line = answers.Integer(
        "Its line in the second batch, or the first one that failed, or null.", 38, allow_none=True
    )
    after_codes = answers.List(answers.String, "The codes of its errors in the second batch.", ["required"])
