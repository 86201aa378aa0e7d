"""Applying those corrections of an account that somebody has accepted, round after round."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from marshmallow import missing

from migration_payloads.corrections.catalogue import suggest
from migration_payloads.corrections.place import ORDER, find_place, get, lesser, may_be_personal, pattern_of
from migration_payloads.errors import Confidence, ErrorItem, Operation, Suggestion
from migration_payloads.rules.account import Path
from migration_payloads.schemas.json import encode_json
from migration_payloads.validation import ValidatedAccount

#: The most rounds. A correction may show what the next one has to correct, but not for ever.
_ROUNDS = 20


class Group(NamedTuple):
    """Corrections that are accepted together: of one code and kind, at paths that differ in indexes only."""

    code: str
    at: str
    kind: str


class Step(NamedTuple):
    """A change of a correction: the path, and the value before and after it, or `missing`."""

    path: str
    before: Any
    after: Any
    #: Whether the values may be those of a person.
    personal: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """The correction of a finding in an account."""

    group: Group
    confidence: Confidence
    suggestions: tuple[Suggestion, ...]
    steps: tuple[Step, ...]


#: Returns the least confidence with which corrections of a group are accepted, or None if none is.
Accepts = Callable[[Group], Confidence | None]


def reaches(confidence: Confidence, least: Confidence | None) -> bool:
    """Return whether a correction is at least this sure. None is never reached."""
    return least is not None and ORDER.index(confidence) >= ORDER.index(least)


def propose(payload: Any, account: ValidatedAccount) -> Iterator[Proposal]:
    """Yield the correction of each finding in a parsed payload that has one."""
    for item in (*account.errors, *account.warnings):
        if suggestions := suggest(payload, item):
            yield _proposal(payload, item, suggestions)


def _proposal(payload: Any, item: ErrorItem, suggestions: tuple[Suggestion, ...]) -> Proposal:
    place = find_place(payload, item.code, item.attr or "")
    path = place.path if place else ()
    confidence = reduce(lesser, (it.confidence for it in suggestions))
    steps = tuple(_step(payload, it) for it in suggestions)
    return Proposal(Group(item.code, pattern_of(path), suggestions[0].kind), confidence, suggestions, steps)


def _step(payload: Any, suggestion: Suggestion) -> Step:
    place = find_place(payload, "", suggestion.path)
    before = place.value if place else missing
    after = missing if suggestion.op is Operation.REMOVE else suggestion.value
    return Step(suggestion.path, deepcopy(before), after, may_be_personal(place, before, after))


def fix_account(
    payload: Any, account: ValidatedAccount, accepts: Accepts, check: Callable[[Any], ValidatedAccount]
) -> tuple[list[Proposal], ValidatedAccount]:
    """Change a parsed payload by the corrections that are accepted, until it has no more of them.

    `account` has the findings in the payload, and `check` validates it again. Return what was applied, and
    the account with the findings that are left.
    """
    applied: list[Proposal] = []
    seen: set[bytes] = set()
    for _ in range(_ROUNDS):
        chosen = list(_choose(propose(payload, account), accepts, seen))
        if not chosen:
            break
        apply(payload, (it for proposal in chosen for it in proposal.suggestions))
        applied += chosen
        account = check(payload)
    return applied, account


def _choose(proposals: Iterator[Proposal], accepts: Accepts, seen: set[bytes]) -> Iterator[Proposal]:
    """Yield the accepted corrections that do not get in one another's way. The others' turn comes next."""
    changed: set[str] = set()
    above: set[str] = set()
    for proposal in proposals:
        if not reaches(proposal.confidence, accepts(proposal.group)):
            continue
        paths = {it.path for it in proposal.suggestions}
        over = {path[:i] for path in paths for i, letter in enumerate(path) if letter == "."}
        if changed & (paths | over) or above & paths:
            continue
        removes_item = any(
            it.op is Operation.REMOVE and it.path[-1:].isdecimal() for it in proposal.suggestions
        )
        key = encode_json([it.to_dict() for it in proposal.suggestions])
        # One that was applied in vain is not applied again. What has gone from a list was not in vain.
        if key in seen and not removes_item:
            continue
        seen.add(key)
        changed |= paths
        above |= over
        yield proposal


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
