"""The kinds of text in payloads."""

import re
import unicodedata
from enum import StrEnum
from typing import Any, ClassVar

import phonenumbers
from marshmallow import ValidationError, fields, missing
from marshmallow.validate import Email as EmailForm

from migration_payloads.schemas.coded import Coded, CodedLength, CodedOneOf, Messages
from migration_payloads.schemas.identifiers import DASHES, MAX_IDENTIFIER, identifier_fault, without_hidden
from migration_payloads.schemas.messages import Message


class Text(Coded, fields.String):
    """Text. A number is not text.

    Empty text is kept if `blank` is true. Otherwise it is an error (code `blank`) in a required field, and
    counts as absent in an optional one. Text with only spaces or invisible characters is always an error.
    """

    default_error_messages: Messages = {
        "invalid": "This is {kind}, not text. Put it in quotation marks.",
        "blank": "This may not be empty, or only spaces or invisible characters.",
        "nul": Message("This has the character U+0000, which cannot be stored.", "invalid_characters"),
    }

    def __init__(self, *about: Any, blank: bool = False, max_length: int = 255, **kwargs: Any) -> None:
        self.blank = blank
        super().__init__(*about, validate=CodedLength(max=max_length), **kwargs)
        if self.required and not blank:
            self.metadata = {"minLength": 1, **self.metadata}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:
        if not isinstance(value, str):
            raise self.make_error("invalid", input=value)
        if not value:
            return self._empty()
        if "\0" in value:
            raise self.make_error("nul")
        if not without_hidden(value).strip():
            raise self.make_error("blank")
        return self._checked(value)

    def _empty(self) -> Any:
        if self.required and not self.blank:
            raise self.make_error("blank")
        return "" if self.blank else missing

    def _checked(self, text: str) -> str:
        """Return the text to load. Raise ValidationError if `text` has the wrong form."""
        return text


class Identifier(Text):
    """A supplier's identifier: printable, not only spaces, at most 128 characters."""

    default_error_messages: Messages = {
        "control": Message("{found} has an unprintable character. Remove it.", "invalid_characters")
    }

    def __init__(self, *about: Any, max_length: int = MAX_IDENTIFIER, **kwargs: Any) -> None:
        super().__init__(*about, max_length=max_length, **kwargs)

    def _checked(self, text: str) -> str:
        if not text.isprintable():
            raise self.make_error("control", input=text)
        return text


class NormalIdentifier(Identifier):
    """An identifier that is compared, such as a supplier's code. See `identifier_fault`."""

    def _checked(self, text: str) -> str:
        if fault := identifier_fault(text):
            raise ValidationError(fault)
        return text


class Scope(Identifier):
    """An identifier that limits what is meant. An empty one is an error, because it would mean everything."""

    def __init__(self, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, **kwargs)
        self.metadata = {"minLength": 1, **self.metadata}

    def _empty(self) -> Any:
        raise self.make_error("blank")


class Choice(Coded, fields.String):
    """A word from a closed list of the specification."""

    usual_personal = False
    default_error_messages: Messages = {"invalid": "This is {kind}, not text."}

    def __init__(self, vocabulary: type[StrEnum], *about: Any, **kwargs: Any) -> None:
        words = [member.value for member in vocabulary]
        parameter = {"type": "string", "enum": words}
        super().__init__(*about, parameter=parameter, validate=CodedOneOf(words), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise self.make_error("invalid", input=value)
        return value


class Code(Text):
    """An upper-case word, for which the specification shows values but no closed list."""

    usual_personal = False
    default_error_messages: Messages = {
        "form": Message(
            "{found} is not a code: upper-case letters, digits and underscores, starting with a letter.",
            "invalid_choice",
        )
    }
    #: The form of a code.
    FORM = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
    described: ClassVar[dict[str, Any]] = {"pattern": rf"^({FORM.pattern})?$"}

    def __init__(self, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, max_length=64, **kwargs)

    def _checked(self, text: str) -> str:
        if not self.FORM.fullmatch(text):
            raise self.make_error("form", input=text)
        return text


class OpenChoice(Code):
    """A word from a list that may be incomplete. Other words are loaded, too, and a rule warns about them."""

    def __init__(self, vocabulary: type[StrEnum], *about: Any, **kwargs: Any) -> None:
        self.vocabulary = vocabulary
        super().__init__(*about, **kwargs)


_NUMBER_FORM = re.compile(r" *(?:\+?\(?|\(\+)[0-9][0-9 ().\-/]*", re.ASCII)
_DIGITS_ONLY = re.compile(r"[0-9 +().\-/]", re.ASCII)
_HAS_PREFIX = re.compile(r"[ (]*(?:\+|00)").match


class PhoneNumber(Text):
    """A telephone number that is valid in its country (the Netherlands if it has no prefix), or empty.

    Mobile and fixed lines are not distinguished, because suppliers mix them.
    """

    default_error_messages: Messages = {
        "number": Message(
            "This is not a valid Dutch telephone number. Send a foreign one with its prefix, such as +49.",
            "invalid_phone_number",
        ),
        "foreign": Message(
            "This is not a valid telephone number of the country that its prefix names.",
            "invalid_phone_number",
        ),
        "text": Message(
            "This is more than a telephone number. Send digits, with spaces, dots, hyphens or brackets.",
            "invalid_phone_number",
        ),
    }

    def __init__(self, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, blank=True, max_length=40, personal=True, **kwargs)

    def _checked(self, text: str) -> str:
        if len(text) > 40:
            return text  # only the length is reported
        number = without_hidden(text)  # a rule warns about these characters
        if not is_phone_number(number):
            key = "text" if _DIGITS_ONLY.sub("", number) else "foreign" if _HAS_PREFIX(number) else "number"
            raise self.make_error(key)
        return text


def is_phone_number(text: str) -> bool:
    """Return True if `text` is nothing but a telephone number that is valid in its country (default NL).

    Digits may be separated by spaces, dots, hyphens, slashes and brackets.
    """
    if not _NUMBER_FORM.fullmatch(text):
        return False  # the library would look for a number in the text
    try:
        return bool(phonenumbers.is_valid_number(phonenumbers.parse(text, "NL")))
    except phonenumbers.NumberParseException:
        return False


class EmailAddress(Text):
    """An e-mail address. Only its form is checked. It may be empty."""

    default_error_messages: Messages = {
        "form": Message("This is not an e-mail address. Write it as name@domain.", "invalid_email_address"),
        "compatibility": Message(
            "This has another form of a character, such as a full-width one. Send the usual one.",
            "invalid_email_address",
        ),
    }
    _form = EmailForm()

    def __init__(self, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, blank=True, max_length=254, personal=True, **kwargs)

    def _checked(self, text: str) -> str:
        if len(text) > 254:
            return text  # only the length is reported, because checking the form of a long text is slow
        try:
            self._form(text)
        except (ValidationError, UnicodeError) as error:
            raise self.make_error("form") from error
        visible = without_hidden(text)  # a rule warns about these characters
        if not text.isascii() and unicodedata.normalize("NFKC", visible).translate(DASHES) != visible:
            raise self.make_error("compatibility")
        return text


class Ean(Text):
    """The number of a meter point: digits, at most 18."""

    default_error_messages: Messages = {
        "digits": Message("{found} is not an EAN. Send digits only, at most 18.", "invalid_ean")
    }
    #: The form of an EAN.
    FORM = re.compile(r"[0-9]{1,18}")
    described: ClassVar[dict[str, Any]] = {"pattern": rf"^{FORM.pattern}$"}

    def _checked(self, text: str) -> str:
        if not self.FORM.fullmatch(text):
            raise self.make_error("digits", input=text)
        return text


class DocumentPath(Text):
    """A path below the supplier's document root (section 2.1). It cannot lead out of it.

    One leading slash means nothing: the location is the same without it.
    """

    default_error_messages: Messages = {
        "path": Message(
            "{found} is not a path below the document root. Send a relative path without outer spaces, "
            "backslashes, control characters or a scheme, whose parts are neither empty nor '.' nor '..'.",
            "invalid_document_path",
        )
    }
    _SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)

    # Surely a valid path.
    _PLAIN = re.compile(r"(?=.{1,1024}\Z)(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*")

    def __init__(self, *about: Any, **kwargs: Any) -> None:
        super().__init__(*about, max_length=1024, **kwargs)

    def deserialize(self, value: Any, *args: Any, **kwargs: Any) -> Any:
        """Load a value. To see at once that it is a plain path takes a tenth of the time."""
        if isinstance(value, str) and self._PLAIN.fullmatch(value):
            return value
        return super().deserialize(value, *args, **kwargs)

    def _checked(self, text: str) -> str:
        path = text.removeprefix("/")
        climbs = any(part in ("", ".", "..") for part in path.split("/"))
        is_strange = "\\" in path or not path.isprintable() or path != path.strip()
        if climbs or is_strange or self._SCHEME.match(path):
            raise self.make_error("path", input=text)
        return text
