"""Dutch towns with their postcodes, streets, and the codes of their grid operators."""

from collections.abc import Callable
from typing import NamedTuple

from faker.providers.address.nl_NL import Provider as Addresses
from faker.providers.person.nl_NL import Provider as Names

LIANDER = "8716871000002"
STEDIN = "8716892000005"
ENEXIS = "8712423014022"
RENDO = "8716912000008"
COTEQ = "8716916000004"
WESTLAND = "8716878999996"

#: The first six digits of the EANs that a grid operator gives out, by its GLN.
EAN_PREFIXES = {
    LIANDER: "871687",
    STEDIN: "871689",
    ENEXIS: "871694",
    RENDO: "871691",
    COTEQ: "871690",
    WESTLAND: "871685",
}


class Town(NamedTuple):
    """A town: its first and last four-digit postcode area, telephone area code and grid operator."""

    name: str
    first_area: int
    last_area: int
    telephone_area: str
    grid_operator_code: str


TOWNS = (
    Town("Amsterdam", 1011, 1109, "20", LIANDER),
    Town("Rotterdam", 3011, 3089, "10", STEDIN),
    Town("Den Haag", 2491, 2597, "70", STEDIN),
    Town("Utrecht", 3511, 3585, "30", STEDIN),
    Town("Eindhoven", 5611, 5658, "40", ENEXIS),
    Town("Groningen", 9711, 9747, "50", ENEXIS),
    Town("Tilburg", 5011, 5049, "13", ENEXIS),
    Town("Almere", 1311, 1363, "36", LIANDER),
    Town("Breda", 4811, 4839, "76", ENEXIS),
    Town("Nijmegen", 6511, 6546, "24", LIANDER),
    Town("Almelo", 7601, 7609, "546", COTEQ),
    Town("Haarlem", 2011, 2037, "23", LIANDER),
    Town("Arnhem", 6811, 6846, "26", LIANDER),
    Town("Zwolle", 8011, 8043, "38", ENEXIS),
    Town("Maastricht", 6211, 6229, "43", ENEXIS),
    Town("Delft", 2611, 2629, "15", STEDIN),
    Town("Leeuwarden", 8911, 8941, "58", LIANDER),
    Town("'s-Hertogenbosch", 5211, 5237, "73", ENEXIS),
    Town("Steenwijk", 8331, 8334, "521", RENDO),
    Town("Naaldwijk", 2671, 2673, "174", WESTLAND),
)

STREETS = tuple(name + suffix for name in Names.first_names for suffix in Addresses.street_suffixes)

# The letters that postcodes use. SA, SD and SS are never used.
_LETTERS = "ABCDEGHJKLMNPRSTVWXZ"
POSTCODE_LETTERS = tuple(a + b for a in _LETTERS for b in _LETTERS if a + b not in {"SA", "SD", "SS"})

ADDITIONS = ("", "", "", "", "", " A", " B", "-2", " bis", " hs")


class Address(NamedTuple):
    """Four address lines and the postcode. Line 2 has the house number, and line 4 the town."""

    line1: str
    line2: str
    line3: str
    line4: str
    postcode: str


def make_address(r: Callable[[], float], town: Town) -> Address:
    """Return an address in `town`. Line 3 is mostly empty. The postcode sometimes has no space."""
    area = town.first_area + int(r() * (town.last_area - town.first_area + 1))
    letters = POSTCODE_LETTERS[int(r() * len(POSTCODE_LETTERS))]
    return Address(
        STREETS[int(r() * len(STREETS))],
        f"{1 + int(r() * 240)}{ADDITIONS[int(r() * len(ADDITIONS))]}",
        "" if r() < 0.96 else "t.a.v. de bewoner",
        town.name,
        f"{area}{letters}" if r() < 0.12 else f"{area} {letters}",
    )
