"""Bring the Dutch catalogue of the console up to date: new messages are added without a translation.

A message that is used nowhere any more is removed. A test asks for a translation of each.
"""

from io import BytesIO
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

from migration_service.blueprints.console.remedies import find_sentences
from migration_service.blueprints.console.states import STATES
from migration_service.services.batches.error_thresholds import WORDS
from migration_service.services.readiness.checks import SAYS
from migration_service.services.reconciliation.differences import NOT_COMPARED
from migration_service.services.reconciliation.verdict import SENTENCES
from migration_service.services.undo.open_work import OPEN_WORK

CONSOLE = Path(__file__).parent.parent / "src/migration_service/blueprints/console"
FILE = CONSOLE / "translations/nl.po"
_KEYWORDS: Any = {
    **dict.fromkeys(("_", "_l", "mark", "gettext")),
    **dict.fromkeys(("ngettext", "mark_plural"), (1, 2)),
}
_METHODS = [("**.py", "python"), ("templates/**", "jinja2")]
_OPTIONS = {"templates/**": {"trim_blocks": "on", "lstrip_blocks": "on", "silent": "off"}}


def update() -> Catalog:
    """Return the catalogue: every message of the templates, views and codes, with its known translation."""
    known = read_po(BytesIO(FILE.read_bytes()), locale="nl")
    catalogue = Catalog("nl", header_comment="# The console in Dutch.", fuzzy=False)
    found = extract_from_dir(CONSOLE, _METHODS, _OPTIONS, _KEYWORDS)
    said = (text for _result, *texts in SAYS.values() for text in texts if text)
    codes = (*find_sentences(), *NOT_COMPARED, *OPEN_WORK, *SENTENCES.values(), *WORDS.values(), *said)
    messages: tuple[Any, ...] = (*(message for _file, _line, message, *_ in found), *codes, *STATES)
    for message in messages:
        translation = known.get(message if isinstance(message, str) else message[0])
        catalogue.add(message, translation.string if translation else "")
    return catalogue


if __name__ == "__main__":
    written = BytesIO()
    write_po(written, update(), width=110, omit_header=True, sort_output=True, no_location=True)
    FILE.write_bytes(written.getvalue())
