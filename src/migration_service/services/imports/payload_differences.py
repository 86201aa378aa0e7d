"""In which values a payload differs from the one that an account was created from."""

from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any

from marshmallow import Schema
from marshmallow.fields import Nested

from migration_service.db.statements import Statements
from migration_service.errors import ErrorItem, PayloadDiffersError
from migration_service.schemas.account import ACCOUNT_IMPORT
from migration_service.schemas.fields import NumberText
from migration_service.schemas.json import parse_json
from migration_service.services.imports.states import StagedProcess
from migration_service.services.imports.validation import ValidatedAccount

#: Paths that are listed of one account.
MOST_PATHS = 20
_OTHER = "The account was created with another value."
_NONE = "The account was created without this."
_MORE = "The account was created with something that this payload does not have."
_FURTHER = f"There are further differences: the first {MOST_PATHS} are listed."
_REMOVED = "The account was created from another payload, which is no longer kept. The paths are unknown."

_READ = """
    SELECT id, payload::text AS payload FROM account_import_process
    WHERE id = ANY(%(process_ids)s) AND payload_sha256 <> ''
"""


def compare_with_created(
    statements: Statements, repeated: Sequence[tuple[StagedProcess, ValidatedAccount]]
) -> list[list[ErrorItem]]:
    """Return for each repeated account in what it differs from the payload that it was created from.

    The payloads are read only if the hashes differ. The order of members, and how a number is written, are no
    differences. Values are not repeated. Of an account that was erased nothing is said.
    """
    others = [process.id for process, account in repeated if process.payload_sha256 != account.sha256]
    rows = statements.execute(_READ, {"process_ids": others}) if others else []
    created = {row.id: row.payload for row in rows}
    return [
        _describe(created[process.id], account.json) if process.id in created else []
        for process, account in repeated
    ]


def _describe(created: str | None, sent: bytes) -> list[ErrorItem]:
    if created is None:
        return [ErrorItem(PayloadDiffersError.code, _REMOVED)]
    found = list(islice(_compare(parse_json(created.encode()), parse_json(sent), ""), MOST_PATHS + 1))
    items = [ErrorItem(PayloadDiffersError.code, detail, path) for path, detail in found[:MOST_PATHS]]
    return items + [ErrorItem(PayloadDiffersError.code, _FURTHER)] * (len(found) > MOST_PATHS)


def _compare(created: Any, sent: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each difference in the payload that was sent, and what it is."""
    if created == sent:
        return
    if isinstance(created, dict) and isinstance(sent, dict):
        for name in {**sent, **created}:
            below = f"{path}.{name}" if path else name
            if name not in sent or name not in created:
                yield below, _NONE if name in sent else _MORE
            else:
                yield from _compare(created[name], sent[name], below)
    elif isinstance(created, list) and isinstance(sent, list):
        yield from _compare_lists(created, sent, path)
    elif not _is_same_number(created, sent, path.rpartition(".")[2]):
        yield path, _OTHER


def _compare_lists(created: list[Any], sent: list[Any], path: str) -> Iterator[tuple[str, str]]:
    """Compare what is between the items that are the same at both ends, as an item may be new or gone."""
    first = _count_same(created, sent)
    last = _count_same(created[first:][::-1], sent[first:][::-1])
    created, sent = created[first : len(created) - last], sent[first : len(sent) - last]
    for index, (one, other) in enumerate(zip(created, sent, strict=False), first):
        yield from _compare(one, other, f"{path}.{index}")
    for index in range(len(created), len(sent)):
        yield f"{path}.{first + index}", _NONE
    if len(created) > len(sent):
        yield path, _MORE


def _count_same(created: list[Any], sent: list[Any]) -> int:
    pairs = enumerate(zip(created, sent, strict=False))
    return next((index for index, (one, other) in pairs if one != other), min(len(created), len(sent)))


def _is_same_number(created: Any, sent: Any, name: str) -> bool:
    """Return whether two texts of a field that takes numbers as text are the same number."""
    if name not in _NUMBER_TEXTS:
        return False
    try:
        return Decimal(created) == Decimal(sent)
    except (InvalidOperation, TypeError, ValueError):
        return False


def _find_number_texts(schema: Schema) -> Iterator[str]:
    for name, field in schema.fields.items():
        if isinstance(field, NumberText):
            yield name
        elif isinstance(field, Nested):
            yield from _find_number_texts(field.schema)


_NUMBER_TEXTS = frozenset(_find_number_texts(ACCOUNT_IMPORT))
