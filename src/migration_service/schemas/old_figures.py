"""The figures of the old system: a line of their file, and how they compare with the created accounts."""

from typing import Any

from marshmallow import Schema, validates_schema
from marshmallow.exceptions import ValidationError

from migration_payloads.schemas import fields
from migration_payloads.schemas.base import AnswerSchema, CommandFields, Fields
from migration_service.schemas import answers
from migration_service.schemas.control_totals import AmountsByCode, Count
from migration_service.schemas.paging import page_arguments, row_id
from migration_service.states import Figure, FigureBucket

_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"
_COMPARISON_ID = "019a9c1e-8c11-7d0a-9c52-4b0d5e7a1f02"
_NUMBER = "The account's number in the supplier's system."
EXAMPLE = (
    '{"external_account_number": "10000001", "ledger_balances": {"ENERGY_LEDGER": "-120.45"}, '
    '"last_billed_to_date": "2026-01-31", "monthly_advance_amount": "182.00", "meter_points": 2, '
    '"open_transactions": 3, "last_reading_date": "2026-01-31"}\n'
)


class OldFiguresLineSchema(CommandFields):
    """A line: the account, and any of its figures."""

    external_account_number = fields.NormalIdentifier(_NUMBER, "10000001", required=True)
    ledger_balances = AmountsByCode(
        "The balance of each ledger. Those left out are zero.",
        {"ENERGY_LEDGER": "-120.45"},
        unit="in euros; positive if the customer has credit",
    )
    last_billed_to_date = fields.Day("The last day that was billed, of any meter point.", "2026-01-31")
    monthly_advance_amount = fields.Number(
        "The advance for a month, of all meter points.", "182.00", unit="in euros, tax included"
    )
    meter_points = Count("The number of meter points.", 2)
    open_transactions = Count("The number of transactions since the last settlement.", 3)
    last_reading_date = fields.Day("The end of the newest billed period with readings.", "2026-01-31")

    @validates_schema(skip_on_field_errors=True)
    def check_figures(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Require a figure."""
        if len(data) < 2:
            figures = ", ".join(it for it in self.fields if it != "external_account_number")
            raise ValidationError(
                fields.Message(f"This line has no figure. Expected at least one of: {figures}.", "required")
            )


class OldFiguresArgumentsSchema(Fields):
    """The query string of a file with figures."""

    tolerance = fields.Number(
        "The difference of an amount that is no problem.",
        "0.01",
        load_default=0,
        openapi={"default": 0},
        unit="in euros",
        parameter={"type": "number", "minimum": 0},
    )
    tolerance_days = Count(
        "The difference of a date, in days, that is no problem.",
        0,
        load_default=0,
        parameter={"type": "integer", "minimum": 0},
    )
    file_name = fields.Identifier("The name of the file.", "figures.csv", max_length=256)

    @validates_schema(skip_on_field_errors=True)
    def check_tolerance(self, data: dict[str, Any], **_kwargs: Any) -> None:
        """Refuse a tolerance below zero."""
        if data["tolerance"] < 0:
            raise ValidationError(fields.Message("This is negative.", "out_of_range"), "tolerance")


def only_batch() -> fields.Scope:
    """Return the parameter for the batch that is asked about, instead of the whole supplier."""
    return fields.Scope(
        "Only the accounts on the lines of this batch.",
        _BATCH_ID,
        parameter={"type": "string", "format": "uuid"},
    )


class OldFiguresScopeSchema(Fields):
    """The query string of their comparison."""

    batch = only_batch()


def difference_arguments() -> Schema:
    """Return the query string of the list of differences."""
    return page_arguments(
        "differences",
        row_id,
        batch=only_batch(),
        bucket=fields.Choice(FigureBucket, "Only differences of this size.", FigureBucket.MORE),
        figure=fields.Choice(Figure, "Only differences of this figure.", Figure.LEDGER_BALANCES),
    )


class FigureCountsAnswerSchema(AnswerSchema):
    """How one figure compares over all accounts."""

    figure = answers.String("The figure.", Figure.LEDGER_BALANCES, words=Figure)
    equal = answers.Integer("How many are equal.", 99_000)
    within_cent = answers.Integer("How many amounts differ by at most a cent.", 12)
    within_euro = answers.Integer("How many amounts differ by more, and at most a euro.", 3)
    more = answers.Integer("How many differ by more. Numbers and dates that differ are here.", 1)


class OldFiguresAnswerSchema(AnswerSchema):
    """The newest file with figures, and how they compare with the created accounts."""

    file_name = answers.String("The name of the file.", "figures.csv", allow_none=True)
    file_sha256 = answers.String(
        "The SHA-256 of the file as it was sent.",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    )
    file_bytes = answers.Integer("Its size in bytes as it was sent.", 9_812_345)
    accounts = answers.Integer("The number of accounts in it.", 100_000)
    tolerance = answers.Float("The difference of an amount that is no problem, in euros.", 0.01)
    tolerance_days = answers.Integer("The difference of a date that is no problem, in days.", 0)
    uploaded_at = answers.Moment("When it arrived, in UTC.", "2026-03-01T10:15:00Z")
    uploaded_by = answers.String("The name of the API key that was used.", "Migration")
    comparison_id = answers.UUID(
        "The kept comparison, or null if it has none of this file: reconcile.",
        _COMPARISON_ID,
        allow_none=True,
    )
    compared_at = answers.Moment("When it ended, in UTC.", "2026-03-01T10:20:00Z", allow_none=True)
    compared = answers.Integer("Created accounts that have figures.", 99_990)
    not_created = answers.Integer("Accounts that have figures, but were neither created nor excluded.", 10)
    differing = answers.Integer("Accounts with a difference that is not tolerated, and those.", 11)
    figures = answers.List(FigureCountsAnswerSchema, "Each figure that the file has.")


class FigureDifferenceAnswerSchema(AnswerSchema):
    """A figure of an account that differs."""

    number = answers.Integer("Its place among the differences of the comparison, from 1.", 1)
    external_account_number = answers.String(_NUMBER, "10000001")
    figure = answers.String("The figure.", Figure.LEDGER_BALANCES, words=Figure)
    ledger_code = answers.String("The ledger of a balance, or null.", "ENERGY_LEDGER", allow_none=True)
    old = answers.String(
        "What the old system says, amounts in euros. Null if it has none.", "-120.45", allow_none=True
    )
    created = answers.String(
        "What the account has, amounts in euros. Null if it has none.", "-120.44", allow_none=True
    )
    bucket = answers.String("How large it is.", FigureBucket.WITHIN_CENT, words=FigureBucket)
    is_tolerated = answers.Boolean("Whether it is within the tolerance of the file.", True)
