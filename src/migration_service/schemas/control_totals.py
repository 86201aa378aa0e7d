"""Control totals: a supplier's totals for a file of accounts."""

from decimal import Decimal
from typing import Any, ClassVar

from marshmallow import ValidationError, fields

from migration_payloads.files.totals import is_code
from migration_payloads.schemas.base import AnswerSchema, Fields, find_unknown_fields, load
from migration_payloads.schemas.coded import Coded, Messages
from migration_payloads.schemas.fields import NormalIdentifier, Number, Object, WholeNumber
from migration_payloads.schemas.messages import Message
from migration_payloads.schemas.vocabulary import TransactionType
from migration_service.errors import ErrorItem, RequestFailedValidationError
from migration_service.schemas import answers

#: How many ledger codes control totals may have.
MAX_CODES = 100
EXAMPLE: dict[str, Any] = {
    "accounts": 20_000,
    "ledger_balances": {"ENERGY_LEDGER": "-1204388.55"},
    "transactions": {
        "PAYMENT": {"count": 118_204, "sum": "6213827.60"},
        "SUPPLY_CHARGE": {"count": 53_112, "sum": "3776322.49"},
    },
    "statements": 33_748,
}
_BATCH_ID = "019a9c1e-7b52-7c7e-8a3f-0d7f0f6f2b11"

#: The fields of answers about a file that tell whether it has what its control totals say.
DIFFERING = answers.Integer(
    "How many control totals differ from the file. Null if none were given.", 0, allow_none=True
)
AS_GIVEN = answers.Boolean(
    "True if no control total differs and the whole file could be read. Null if none were given.",
    True,
    allow_none=True,
)


class Count(WholeNumber):
    """A number of things."""

    default_error_messages: Messages = {
        "negative": Message("{found} is negative. Expected a count.", "out_of_range")
    }
    described: ClassVar[dict[str, Any]] = {"minimum": 0}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        number = super()._deserialize(value, attr, data, **kwargs)
        if number < 0:
            raise self.make_error("negative", input=value)
        return number


class Total(Number):
    """A sum of amounts, as text. It may be larger than an amount, and have more digits after the point.

    A file has such a sum if an amount with too many of them is on a line that is refused.
    """

    default_error_messages: Messages = {
        "range": Message("{found} has more than 40 digits on a side of the decimal point.", "out_of_range")
    }
    _MOST: ClassVar[Decimal] = Decimal(10) ** 40

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        number = value if isinstance(value, Decimal) else self._as_decimal(value)
        if not -self._MOST < number < self._MOST:
            raise self.make_error("range", input=value)
        return format(number, "f")


class AmountsByCode(Coded, fields.Dict):
    """An amount for each code of a ledger."""

    default_error_messages: Messages = {
        "invalid": Message("This is {kind}, not an object.", "not_a_dict"),
        "too_many": Message(f"This has more than {MAX_CODES} codes.", "too_many_items"),
    }
    described: ClassVar[dict[str, Any]] = {
        "type": "object",
        "additionalProperties": {"type": ["number", "string"]},
        "maxProperties": MAX_CODES,
    }
    amount: ClassVar[Number] = Number()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.make_error("invalid", input=value)
        if len(value) > MAX_CODES:
            raise self.make_error("too_many")
        amounts: dict[str, Any] = {}
        errors: dict[str, Any] = {}
        for code, amount in value.items():
            try:
                amounts[self._read_code(code)] = self.amount.deserialize(amount)
            except ValidationError as error:
                errors[code[:128]] = error.messages
        if errors:
            raise ValidationError(errors, valid_data=amounts)
        return amounts

    def _read_code(self, code: Any) -> str:
        return str(NormalIdentifier(required=True).deserialize(code))


class TotalsByCode(AmountsByCode):
    """A sum for each code of a ledger that a file has, also one that is refused."""

    default_error_messages: Messages = {
        "code": Message("{found} is no ledger code that a file can have.", "invalid")
    }
    amount: ClassVar[Number] = Total()

    def _read_code(self, code: Any) -> str:
        if not is_code(code):
            raise self.make_error("code", input=code)
        return str(code)


class TransactionTotalSchema(Fields):
    """The transactions of one type."""

    count = Count("How many there are.", 118_204, required=True)
    sum = Total(
        "The sum of their amounts as they are in the file.", "6213827.60", required=True, unit="in euros"
    )


TransactionTotalsSchema = Fields.from_dict(
    {
        kind.value: Object(
            TransactionTotalSchema,
            f"The transactions of type {kind}.",
            {"count": 118_204, "sum": "6213827.60"},
        )
        for kind in TransactionType
    },
    name="TransactionTotalsSchema",
)


class ControlTotalsSchema(Fields):
    """A supplier's totals for a file. Totals that are left out are not compared."""

    accounts = Count("The number of accounts: one for each line that is not blank.", 20_000)
    ledger_balances = TotalsByCode(
        "The sum of the ledger balances by ledger code. Absent codes count as zero.",
        EXAMPLE["ledger_balances"],
        unit="in euros; positive if customers have credit",
    )
    transactions = Object(
        TransactionTotalsSchema,
        "The transactions of all ledgers by type, both open and settled. Absent types count as zero.",
        EXAMPLE["transactions"],
    )
    statements = Count("Statements in all accounts.", 33_748)


def read_control_totals(value: Any) -> dict[str, Any]:
    """Return control totals in their stored form, with amounts as texts.

    `value` is parsed JSON. Raise RequestFailedValidationError with every error.
    """
    schema = ControlTotalsSchema()
    totals: dict[str, Any]
    totals, errors = load(schema, value)
    errors += find_unknown_fields(schema, value)
    if not errors and not totals:
        detail = f"There are no totals. Expected at least one of: {', '.join(schema.fields)}."
        errors = [ErrorItem("required", detail)]
    if errors:
        raise RequestFailedValidationError(errors=errors)
    return totals


class ControlTotalAnswerSchema(AnswerSchema):
    """One total: the supplier's and the file's."""

    measure = answers.String("The measure: a count, or an amount in euros.", "balance of ENERGY_LEDGER")
    given = answers.Float(
        "The supplier's control total. Null if there is none.", -1204388.55, allow_none=True
    )
    file = answers.Float("The total of all lines of the file.", -1204388.55)
    difference = answers.Float("`file` minus `given`, or null.", 0, allow_none=True)


class ControlTotalsAnswerSchema(AnswerSchema):
    """The control totals of a batch, compared with its file."""

    batch_id = answers.UUID("The id of the batch.", _BATCH_ID)
    control_totals = answers.Dict(
        "The supplier's control totals, or null.",
        EXAMPLE,
        allow_none=True,
        openapi={"type": "object", "additionalProperties": True},
    )
    totals = answers.List(
        ControlTotalAnswerSchema,
        "Each total.",
        [{"measure": "accounts", "given": 20_000, "file": 20_000, "difference": 0}],
    )
    differing = answers.Integer("How many totals differ. Null if the supplier gave none.", 0, allow_none=True)
    as_given = answers.Boolean(
        "True if no total differs and the whole file could be read. Null if the supplier gave none.",
        True,
        allow_none=True,
    )
    unreadable_lines = answers.Integer("Lines that could not be read. They count only as accounts.", 0)
    unreadable_amounts = answers.Integer(
        "Amounts that could not be read, and values in place of a ledger, transaction or statement "
        "that are none. They are in no total.",
        0,
    )
