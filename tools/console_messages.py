"""Bring the Dutch catalogue of the console up to date: new messages are added without a translation.

A message that is used nowhere any more is removed. A test asks for a translation of each.
"""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_python
from babel.messages.pofile import read_po, write_po
from jinja2 import Environment

from migration_service.blueprints.console.remedies import find_sentences
from migration_service.services.batches.error_thresholds import WORDS
from migration_service.services.readiness.checks import SAYS
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.services.reconciliation.verdict import SENTENCES
from migration_service.services.undo.open_work import OPEN_WORK

CONSOLE = Path(__file__).parent.parent / "src/migration_service/blueprints/console"
FILE = CONSOLE / "translations/nl.po"
_KEYWORDS: Any = {
    "_": None,
    "_l": None,
    "mark": None,
    "gettext": None,
    "ngettext": (1, 2),
    "mark_plural": (1, 2),
}
_TEMPLATES: Any = Environment(
    extensions=["jinja2.ext.i18n"], autoescape=True, trim_blocks=True, lstrip_blocks=True
)


def find_messages() -> Iterator[str | tuple[str, str]]:
    """Yield every message of the templates, the views and the codes, those with a plural as two."""
    for file in sorted((CONSOLE / "templates").iterdir()):
        found = _TEMPLATES.extract_translations(file.read_text(), _KEYWORDS)
        yield from _messages((*message, []) for message in found)
    for file in sorted(CONSOLE.rglob("*.py")):
        yield from _messages(extract_python(BytesIO(file.read_bytes()), _KEYWORDS, [], {}))
    yield from find_sentences()
    yield from NOT_COMPARED
    yield from OPEN_WORK
    yield from SENTENCES.values()
    yield from WORDS.values()
    yield from (text for _result, *texts in SAYS.values() for text in texts if text)


def _messages(found: Iterator[Any]) -> Iterator[str | tuple[str, str]]:
    for _line, function, message, _comments in found:
        texts = message if isinstance(message, tuple | list) else (message,)
        if (
            function in ("ngettext", "mark_plural")
            and isinstance(texts[0], str)
            and isinstance(texts[1], str)
        ):
            yield texts[0], texts[1]
        elif isinstance(texts[0], str):
            yield texts[0]


def update() -> Catalog:
    """Return the catalogue with every message, and the translations that are known."""
    known = read_po(BytesIO(FILE.read_bytes()), locale="nl") if FILE.exists() else Catalog("nl")
    catalogue = Catalog("nl", header_comment="# The console in Dutch.", fuzzy=False)
    for message in find_messages():
        translation = known.get(message if isinstance(message, str) else message[0])
        catalogue.add(message, translation.string if translation else "", flags=())
    return catalogue


if __name__ == "__main__":
    written = BytesIO()
    write_po(written, update(), width=110, omit_header=True, sort_output=True, no_location=True)
    FILE.write_bytes(written.getvalue())
