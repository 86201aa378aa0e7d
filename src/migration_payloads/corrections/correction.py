"""The decorator that makes a function a correction."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from migration_payloads.corrections.place import Place, Steps

_Correct: TypeAlias = Callable[[Place], Steps]


@dataclass(frozen=True, slots=True)
class Correction:
    """A kind of correction. `about` is its sentence for suppliers."""

    kind: str
    about: str
    codes: tuple[str, ...]
    #: The classes of the fields that it is for. Empty: it does not look at the field.
    fields: tuple[type[Any], ...]
    #: The characters of the longest text that it looks at. None: it looks at every value.
    longest: int | None
    correct: _Correct

    def fits(self, place: Place) -> bool:
        """Return whether the correction is for values like this one. `suggest` has looked at its codes."""
        if self.fields and not isinstance(place.field, self.fields):
            return False
        return self.longest is None or (isinstance(place.value, str) and len(place.value) <= self.longest)


def corrects(
    *codes: str, fields: tuple[type[Any], ...] = (), longest: int | None = None
) -> Callable[[_Correct], Correction]:
    """Turn a function into a correction of findings with these codes. Its name is the kind.

    It returns what is to be changed together, or nothing if this payload says too little.
    """

    def decorate(correct: _Correct) -> Correction:
        about = " ".join((inspect.getdoc(correct) or "").partition("\n\n")[0].split())
        return Correction(correct.__name__, about, codes, fields, longest, correct)

    return decorate
