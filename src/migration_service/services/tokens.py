"""tmp"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    organisation_id: int
    api_key_id: int
