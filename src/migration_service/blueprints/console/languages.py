"""The languages of the console: English in the templates, and Dutch in `translations/nl.po`."""

from decimal import Decimal
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from babel import Locale, negotiate_locale
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.numbers import format_decimal
from babel.support import LazyProxy, NullTranslations, Translations
from flask import Flask, g, has_request_context, request
from markupsafe import Markup

_FOLDER = Path(__file__).parent / "translations"


def speak_languages(app: Flask) -> None:
    """Translate the templates of `app` into the reader's language."""
    app.jinja_env.globals.update(_=_gettext_of_page, ngettext=_ngettext_of_page)
    app.context_processor(lambda: {"language": current_language()})
    app.after_request(_say_language)


def _say_language(response: Any) -> Any:
    response.headers["Content-Language"] = current_language()
    return response


def current_language() -> str:
    """Return the language of this request: the browser's, or else English."""
    if not has_request_context():
        return "en"
    if "language" not in g:
        preferred = [tag for tag, _ in request.accept_languages]
        g.language = negotiate_locale(preferred, _LOCALES, sep="-") or "en"
    return str(g.language)


def current_locale() -> Locale:
    """Return the locale for numbers and times."""
    return _LOCALES[current_language()]


# British English: 24 hours, and the day before the month.
_LOCALES = {"en": Locale("en", "GB"), "nl": Locale("nl", "NL")}


def _gettext_of_page(message: str, **values: Any) -> Markup:
    # The message is trusted. Markup escapes the values.
    return Markup(_catalogue(current_language()).gettext(message)) % values  # noqa: S704


def _ngettext_of_page(singular: str, plural: str, n: int, **values: Any) -> Markup:
    translated = _catalogue(current_language()).ngettext(singular, plural, n)
    return Markup(translated) % {"num": write_number(n), **values}  # noqa: S704


def write_number(value: float | Decimal) -> str:
    """Return a number in the format of this request's language."""
    return str(format_decimal(value, locale=current_locale()))


def gettext(message: str, **values: Any) -> str:
    """Return a message in the language of this request."""
    translated = _catalogue(current_language()).gettext(message)
    return translated % values if values else translated


def ngettext(singular: str, plural: str, n: int, **values: Any) -> str:
    """Return the singular or plural message in the language of this request. `%(num)s` is the number."""
    translated = _catalogue(current_language()).ngettext(singular, plural, n)
    return translated % {"num": write_number(n), **values}


@cache
def _catalogue(language: str) -> NullTranslations:
    file = _FOLDER / f"{language}.po"
    if not file.exists():
        return NullTranslations()
    compiled = BytesIO()
    with file.open("rb") as source:
        write_mo(compiled, read_po(source, locale=language))
    compiled.seek(0)
    return Translations(compiled)


def lazy_gettext(message: str) -> Any:
    """Return a message that is translated when it is shown, for labels of forms."""
    return LazyProxy(gettext, message, enable_cache=False)


#: By these names views translate, now and when it is shown.
_, _l = gettext, lazy_gettext


def mark(message: str) -> str:
    """Return a message unchanged. It marks the message for the catalogue, and is translated when shown."""
    return message


def mark_plural(singular: str, plural: str) -> tuple[str, str]:
    """Return both forms of a message unchanged, for `ngettext`."""
    return singular, plural
