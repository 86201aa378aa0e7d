"""The meaning and the remedy of each error code, and who has to act: the supplier or the operator.

The documentation has the same sentences in English. Here they are in the reader's language.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from migration_service.blueprints.console.languages import gettext
from migration_service.blueprints.description import error_catalogue
from migration_service.services.batches.retry import MAY_PASS


@dataclass(frozen=True, slots=True)
class Remedy:
    """The documented meaning and remedy of a code, and whether the supplier has to act."""

    meaning: str
    remedy: str
    is_ours: bool


def remedy_of(code: str) -> Remedy:
    """Return the documented meaning and remedy of a code. Both are empty for an unknown code."""
    meanings, remedy = _sentences().get(code, ((), ""))
    either = gettext("Or:")  # is found by Babel only outside of an f-string
    meaning = f" {either} ".join(map(gettext, meanings))
    is_ours = code in MAY_PASS or code == "line_failed_unexpectedly"
    return Remedy(meaning, gettext(remedy) if remedy else "", is_ours)


def find_codes() -> list[str]:
    """Return the documented codes, sorted."""
    return sorted(_sentences())


def find_sentences() -> Iterator[str]:
    """Yield every sentence that this module translates, for the catalogue of translations."""
    for meanings, remedy in _sentences().values():
        yield from (*meanings, remedy)


@cache
def _sentences() -> dict[str, tuple[tuple[str, ...], str]]:
    """Return the meanings and the remedy of each code. A code of a field and a rule has both meanings."""
    found: dict[str, tuple[tuple[str, ...], str]] = {
        it.code: ((it.meaning,), it.remedy)
        for it in (*error_catalogue.request_errors(), *error_catalogue.field_errors())
    }
    for it in (*error_catalogue.rule_errors(), *error_catalogue.added_data_errors()):
        meanings, _ = found.get(it.code, ((), ""))
        found[it.code] = ((*meanings, it.meaning), it.remedy)
    return found
