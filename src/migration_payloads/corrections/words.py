"""Corrections of words of a list, and of the names of members."""

import re
from collections.abc import Iterable
from typing import Any

from marshmallow import Schema, missing

from migration_payloads.corrections.correction import corrects
from migration_payloads.corrections.place import Place, Steps, find_field, is_accepted, objects
from migration_payloads.errors import Confidence
from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.base import suggest
from migration_payloads.schemas.fields import Choice, Code, OpenChoice

#: How alike a word and the one that was meant must be.
_LIKENESS = 0.85
#: The most members that are compared with a missing one.
_MOST_UNKNOWN = 20
_OTHER_NAMES = {
    "E": "ELECTRICITY",
    "ELEC": "ELECTRICITY",
    "ELEKTRA": "ELECTRICITY",
    "ELEKTRICITEIT": "ELECTRICITY",
    "STROOM": "ELECTRICITY",
    "POWER": "ELECTRICITY",
    "G": "GAS",
    "AARDGAS": "GAS",
    "KWH": "KWH_CONSUMPION",
    "M3": "CUBIC_METRES_CONSUMPTION",
    "LEVERING": "CONSUMPTION",
    "VERBRUIK": "CONSUMPTION",
    "TERUGLEVERING": "PRODUCTION",
    "PRODUCTIE": "PRODUCTION",
    "GENERATION": "PRODUCTION",
}


@corrects("invalid_choice", "unlisted_value", fields=(Choice, Code), longest=80)
def listed_word(place: Place) -> Steps:
    """Write a word as its list has it: in upper case, with underscores, spelt right.

    It is certain if nothing but upper and lower case, spaces and hyphens differ, and a guess if two words are
    near.
    """
    words = _words_of(place.field)
    upper = "_".join(it for it in re.split(r"[\s\-./]+", place.value) if it).upper()
    if words is None:
        return [place.replace(upper, Confidence.CERTAIN)] if place.accepts(upper) else []
    if upper in words:
        return [place.replace(upper, Confidence.CERTAIN)]
    other = _OTHER_NAMES.get(upper, "")
    meant, sure = (other, Confidence.LIKELY) if other in words else _nearest(upper, words)
    return [place.replace(meant, sure)] if meant else []


def _nearest(name: str, known: Iterable[str]) -> tuple[str, Confidence]:
    """Return the word that was probably meant, or "". It is a guess if another one is near, too.

    A word with another number, such as STEP_2 for STEP_6, is not the one that was meant.
    """
    numbers = re.findall(r"[0-9]+", name)
    near = [it for it in known if re.findall(r"[0-9]+", it) == numbers and suggest(name, (it,), _LIKENESS)]
    meant = suggest(name, near, _LIKENESS) or ""
    return meant, Confidence.LIKELY if len(near) == 1 else Confidence.GUESS


def _words_of(field: Any) -> list[str] | None:
    if isinstance(field, OpenChoice):
        return [str(word) for word in field.vocabulary]
    return list(field.parameter["enum"]) if isinstance(field, Choice) else None


@corrects("unknown_field", "required")
def member_name(place: Place) -> Steps:
    """Give a member the name of the field that was meant. One that means nothing to the service is left out.

    It is certain if nothing but underscores and upper and lower case differ, and a guess if two fields are
    near. Leaving it out is a guess.
    """
    above = find_field(place.path[:-1]) if len(place.path) > 1 else None
    schema = ACCOUNT_IMPORT if len(place.path) == 1 else getattr(above, "schema", None)
    if schema is None or not isinstance(place.name, str) or not isinstance(place.parent, dict):
        return []
    if place.code == "required":
        unknown = [it for it in place.parent if it not in schema.fields][:_MOST_UNKNOWN]
        names = [it for it in unknown if _nearest(it, schema.fields)[0] == place.name]
        return _rename(place, names[0], place.name, schema) if len(names) == 1 else []
    meant, _ = _nearest(place.name, schema.fields)
    renamed = _rename(place, place.name, meant, schema) if meant else []
    return renamed or [place.remove(Confidence.GUESS)]


def _rename(place: Place, name: str, meant: str, schema: Schema) -> Steps:
    """Return what gives a member another name, or nothing if that one is taken or would refuse the value."""
    value = place.parent.get(name, missing)
    if "." in name or meant in place.parent or not is_accepted(schema.fields[meant], value):
        return []
    same = meant.replace("_", "") == re.sub(r"[_\-\s]", "", name).lower()
    sure = Confidence.CERTAIN if same else _nearest(name, schema.fields)[1]
    above = place.path[:-1]
    return [place.remove(sure, (*above, name)), place.replace(value, sure, (*above, meant))]


@corrects("required")
def supply_type_of_meter_point(place: Place) -> Steps:
    """Give an agreement the supply_type of its meter point, or a meter point that of its agreements."""
    if place.name != "supply_type" or not isinstance(place.parent, dict):
        return []
    if "agreements" in place.path:
        above = place.above(3)
        found = {above.get("supply_type")} if isinstance(above, dict) else set()
    else:
        found = {it.get("supply_type") for it in objects(place.parent.get("agreements"))}
    [supply_type] = found if len(found) == 1 else [None]
    accepted = isinstance(supply_type, str) and place.accepts(supply_type)
    return [place.replace(supply_type, Confidence.LIKELY)] if accepted else []
