"""Recipes: which corrections were accepted, for every later book. A recipe has no value of an account."""

from collections.abc import Iterable
from typing import Any

from migration_payloads.corrections.catalogue import CORRECTIONS
from migration_payloads.corrections.fixing import Group
from migration_payloads.errors import Confidence, ParseError
from migration_payloads.schemas.json import parse_json

_VERSION = 1
_ABOUT = {correction.kind: correction.about for correction in CORRECTIONS}
_MEMBERS = ("code", "at", "kind", "confidence")


class RecipeError(ValueError):
    """The file is no recipe, or one of another version."""


Recipe = dict[Group, Confidence]


def write_recipe(accepted: Recipe) -> dict[str, Any]:
    """Return a recipe as JSON. `accepted` has the least confidence that was accepted of each group."""
    steps = [
        {**group._asdict(), "confidence": least, "about": _ABOUT[group.kind]}
        for group, least in sorted(accepted.items())
    ]
    return {"recipe": _VERSION, "steps": steps}


def read_recipe(text: bytes) -> Recipe:
    """Return the corrections that a recipe accepts. Raise RecipeError if it is none."""
    try:
        recipe = parse_json(text)
    except ParseError as error:
        raise RecipeError(str(error)) from error
    if not isinstance(recipe, dict) or not isinstance(recipe.get("steps"), list):
        raise RecipeError("Expected an object with the members recipe and steps.")
    if recipe.get("recipe") != _VERSION:
        raise RecipeError(f"Expected a recipe of version {_VERSION}.")
    return dict(_read_steps(recipe["steps"]))


def _read_steps(steps: list[Any]) -> Iterable[tuple[Group, Confidence]]:
    for number, step in enumerate(steps, 1):
        values = [step.get(name) for name in _MEMBERS] if isinstance(step, dict) else []
        if len(values) != len(_MEMBERS) or not all(isinstance(it, str) for it in values):
            raise RecipeError(f"Step {number} lacks one of {', '.join(_MEMBERS)}.")
        code, at, kind, confidence = map(str, values)
        if kind not in _ABOUT:
            raise RecipeError(f"Step {number} has the kind {kind!r}, which this version does not know.")
        if confidence not in list(Confidence):
            raise RecipeError(f"Step {number}: expected the confidence {', '.join(Confidence)}.")
        yield Group(code, at, kind), Confidence(confidence)
