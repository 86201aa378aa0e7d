"""All corrections, and the functions that suggest them."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, localcontext
from typing import Any

from marshmallow import missing

from migration_payloads.corrections import customers, money, periods, supply, texts, values, words
from migration_payloads.corrections.correction import Correction
from migration_payloads.corrections.place import Place, Steps, find_place, may_be_personal
from migration_payloads.errors import ErrorItem, Operation, ParseError, Suggestion
from migration_payloads.schemas.json import parse_json

#: The most findings of an answer that have suggestions, because they cost more than the findings.
MAX_SUGGESTED = 100

#: Every correction. The first that fits a finding and has something to say is suggested.
CORRECTIONS: tuple[Correction, ...] = tuple(
    value
    for module in (values, texts, words, customers, supply, periods, money)
    for value in vars(module).values()
    if isinstance(value, Correction)
)

_BY_CODE: dict[str, list[Correction]] = {}
for _correction in CORRECTIONS:
    for _code in _correction.codes:
        _BY_CODE.setdefault(_code, []).append(_correction)

#: The codes of the findings that can have suggestions.
CODES = frozenset(_BY_CODE)

_EXACT = Context(prec=80, traps=[])


def suggest(payload: Any, item: ErrorItem) -> tuple[Suggestion, ...]:
    """Return the correction of a finding in a payload: changes that belong together, or nothing.

    `payload` is parsed JSON, as it was sent.
    """
    corrections = _BY_CODE.get(item.code, ())
    if not corrections or item.attr is None or not isinstance(payload, dict):
        return ()
    place = find_place(payload, item.code, item.attr)
    if place is None:
        return ()
    with localcontext(_EXACT):
        for correction in corrections:
            steps = _correct(correction, place) if correction.fits(place) else []
            if steps and not any(_is_nowhere(payload, it) for it in steps):
                return tuple(replace(step, kind=correction.kind) for step in steps)
    return ()


def _is_nowhere(payload: Any, step: Suggestion) -> bool:
    """Return whether a step removes what no path leads to, as a member whose name a path has in quotes."""
    place = find_place(payload, "", step.path)
    return step.op is Operation.REMOVE and (place is None or place.value is missing)


def _correct(correction: Correction, place: Place) -> Steps:
    try:
        return correction.correct(place)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return []  # what is around the value may have any form, because the schema refused it


def add_suggestions(text: bytes, items: Sequence[ErrorItem]) -> list[ErrorItem]:
    """Return the findings in the text of a payload with their suggestions, at most `MAX_SUGGESTED`.

    They are for answers, which have no personal data: a correction that may have a value of a person is left
    out.
    """
    if not any(item.code in CODES for item in items):
        return list(items)
    try:
        payload = parse_json(text)
    except ParseError:
        return list(items)
    head = [replace(item, suggestions=_suggest_openly(payload, item)) for item in items[:MAX_SUGGESTED]]
    return [*head, *items[MAX_SUGGESTED:]]


def _suggest_openly(payload: Any, item: ErrorItem) -> tuple[Suggestion, ...]:
    suggestions = suggest(payload, item)
    values = ((it.path, it.value) for it in suggestions if it.op is not Operation.REMOVE)
    is_hidden = any(may_be_personal(find_place(payload, "", path), value) for path, value in values)
    return () if is_hidden else suggestions
