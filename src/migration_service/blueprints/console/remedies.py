"""What an error code means, what to do about it, and who has to: the supplier, or whoever operates this."""

from dataclasses import dataclass
from functools import cache

from migration_service.blueprints.error_catalogue import FIELD_CODES, request_errors
from migration_service.rules.catalogue import RULES
from migration_service.services.batches.retry import MAY_PASS


@dataclass(frozen=True, slots=True)
class Remedy:
    """What the documentation says about a code, and whether the supplier has to mend it."""

    meaning: str
    remedy: str
    is_ours: bool


def remedy_of(code: str) -> Remedy:
    """Return what the documentation says about a code. Both sentences are empty for an unknown one."""
    meaning, remedy = _sentences().get(code, ("", ""))
    return Remedy(meaning, remedy, code in MAY_PASS or code == "line_failed_unexpectedly")


@cache
def _sentences() -> dict[str, tuple[str, str]]:
    found = {entry.code: (entry.meaning, entry.remedy) for entry in request_errors()}
    found |= FIELD_CODES
    return found | {rule.code: (rule.meaning, rule.remedy) for rule in reversed(RULES)}
