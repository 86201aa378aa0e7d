"""Applying suggestions to a payload."""

from collections.abc import Iterable
from typing import Any

from marshmallow import missing

from migration_payloads.corrections.place import find_place, get
from migration_payloads.errors import Operation, Suggestion
from migration_payloads.rules.account import Path


def apply(payload: Any, suggestions: Iterable[Suggestion]) -> None:
    """Change a parsed payload as the suggestions say.

    Items of lists are removed last, and those with a higher index first, so that no path changes before its
    turn.
    """
    members: list[tuple[Path, Suggestion]] = []
    items: list[tuple[Path, Suggestion]] = []
    for suggestion in suggestions:
        place = find_place(payload, "", suggestion.path)
        if place is None:
            continue
        is_item = suggestion.op is Operation.REMOVE and isinstance(place.name, int)
        (items if is_item else members).append((place.path, suggestion))
    for path, suggestion in members:
        parent = get(payload, path[:-1])
        if suggestion.op is not Operation.REMOVE:
            parent[path[-1]] = suggestion.value
        elif parent is not missing:
            parent.pop(path[-1], None)
    for path, _ in sorted(items, key=lambda item: _by_index(item[0]), reverse=True):
        get(payload, path[:-1]).pop(path[-1])


def _by_index(path: Path) -> list[tuple[str, int]]:
    return [("", part) if isinstance(part, int) else (part, 0) for part in path]
