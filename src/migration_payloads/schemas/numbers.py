"""The kinds of number in payloads."""

import re
from decimal import Context, Decimal, Inexact, Rounded
from typing import Any, ClassVar

from marshmallow import fields

from migration_payloads.schemas.coded import Coded, Messages
from migration_payloads.schemas.messages import Message

#: The limits of an amount or a volume: digits before and after the decimal point.
MAX_INTEGER_DIGITS = 12
MAX_FRACTION_DIGITS = 10

_TOO_LARGE = Decimal(10) ** MAX_INTEGER_DIGITS
_SMALLEST = Decimal(10) ** -MAX_FRACTION_DIGITS
_EXACT = Context(prec=40, traps=[Inexact])
# Also refuses zeros after the last digit kept.
_AS_WRITTEN = Context(prec=40, traps=[Inexact, Rounded])


class Number(Coded, fields.Decimal):
    """A number, kept exactly. It may be text (section 2.5: amounts are sometimes numeric strings)."""

    default_error_messages: Messages = {
        "invalid": "{found} is not a number. Expected a number such as 12.50.",
        "range": Message(
            f"{{found}} has more than {MAX_INTEGER_DIGITS} digits before the decimal point, or more than "
            f"{MAX_FRACTION_DIGITS} after it.",
            "out_of_range",
        ),
    }
    usual_personal = False
    _FORM = re.compile(r"[+-]?\d{1,40}(\.\d{1,40})?", re.ASCII)
    described: ClassVar[dict[str, Any]] = {"type": ["number", "string"]}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        number = value if isinstance(value, Decimal) else self._as_decimal(value)
        if not -_TOO_LARGE < number < _TOO_LARGE:
            raise self.make_error("range", input=value)
        try:
            number.quantize(_SMALLEST, context=_AS_WRITTEN)
        except Inexact as error:
            raise self.make_error("range", input=value) from error
        except Rounded:
            number = number.quantize(_SMALLEST, context=_EXACT)
        return number or _zero(number)

    def _as_decimal(self, value: Any) -> Decimal:
        numeric_text = isinstance(value, str) and self._FORM.fullmatch(value)
        if numeric_text or (isinstance(value, int) and not isinstance(value, bool)):
            return Decimal(value)
        raise self.make_error("invalid", input=value)


def _zero(number: Decimal) -> Decimal:
    """Return zero without a sign, with its digits after the decimal point unless they are too many."""
    exponent = number.as_tuple().exponent
    plain = isinstance(exponent, int) and -MAX_FRACTION_DIGITS <= exponent <= 0
    return abs(number) if plain else Decimal(0)


class NumberText(Number):
    """A number that is sent as text ("string number" in section 2.3), and remains text."""

    described: ClassVar[dict[str, Any]] = {"type": "string", "pattern": r"^[+-]?\d{1,12}(\.\d{1,40})?$"}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        number = super()._deserialize(value, attr, data, **kwargs)
        return value if isinstance(value, str) else format(number, "f")


class WholeNumber(Coded, fields.Integer):
    """A whole number that fits 32 bits. 1.0 is a whole number."""

    default_error_messages: Messages = {
        "invalid": "{found} is not a whole number.",
        "range": Message(f"{{found}} is not between -{2**31 - 1} and {2**31 - 1}.", "out_of_range"),
    }
    usual_personal = False
    #: Numbers are nearer to zero than this.
    bound: ClassVar[int] = 2**31

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        number = value
        if (isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value, re.ASCII)) or (
            isinstance(value, Decimal) and abs(value) < _TOO_LARGE and value == value.to_integral_value()
        ):
            number = int(value)
        if not isinstance(number, int) or isinstance(number, bool):
            raise self.make_error("invalid", input=value)
        if abs(number) >= self.bound:
            raise self.make_error("range", input=value)
        return number
