"""The error messages of fields, with the code, what was found and what was expected."""

from decimal import Decimal
from typing import Any

from migration_payloads.schemas.bounds import MAX_SHOWN


class Message(str):
    """A message with the stable code that clients see (section 7.2).

    `{found}` in it is replaced by the value, or by "This" if the value is personal data. `{kind}` is replaced
    by the kind of value.
    """

    __slots__ = ("code",)
    code: str

    def __new__(cls, text: str, code: str) -> "Message":
        message = super().__new__(cls, text)
        message.code = code
        return message

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.code  # fields are copied together with their messages


def shown(value: Any) -> str:
    """Return a value as messages show it: text is quoted and cut, without unprintable characters."""
    match value:
        case str():
            return repr(value if len(value) <= MAX_SHOWN else value[: MAX_SHOWN - 3] + "...")
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case int() | Decimal():
            text = str(value)
            return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."
    return kind_of(value).capitalize()


def kind_of(value: Any) -> str:
    """Return the kind of this JSON value in words."""
    match value:
        case str():
            return "text"
        case bool():
            return "true or false"
        case None:
            return "null"
        case int() | Decimal():
            return "a number"
        case list():
            return "a list"
    return "an object"
