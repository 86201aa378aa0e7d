"""How strictly payloads are validated."""

from enum import StrEnum


class Profile(StrEnum):
    """The strictness of the validation of an import supplier's payloads."""

    #: Warnings are stored, but do not cause an account to be refused.
    LENIENT = "lenient"
    #: Warnings are errors.
    STRICT = "strict"
