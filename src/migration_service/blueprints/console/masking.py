"""Masking personal data, until an operator asks for it.

A mask shows only that a value exists. The numbers of accounts and meter points are not masked, because people
search by them.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import session

from migration_service.blueprints.console.access import current_operator
from migration_service.services.access.operators import OperatorRole
from migration_service.services.imports.field_differences import FieldDifference
from migration_service.services.reconciliation.differences import AccountDifference

MASK = "•••"

#: Fields of payloads and accounts with personal values.
_PERSONAL = re.compile(
    r"given_name|family_name|email|mobile|landline|date_of_birth|billing_address\d|billing_postcode"
    r"|supply_address\d|supply_postcode|location_description|value|body|note|display_note|reference"
    r"|\w*_reference"
)
_REVEALED = "revealed"
_MOST_REVEALED = 20
#: How long revealed data stays visible to an operator.
_SHOWN_FOR = timedelta(minutes=10)


def is_personal(path: str) -> bool:
    """Return whether the value at a path of a payload, such as `customers.1.landline`, is personal."""
    names = [part for part in path.split(".") if not part.isdecimal()]
    return bool(names) and _PERSONAL.fullmatch(names[-1]) is not None


def mask(value: Any, name: str = "") -> Any:
    """Return a payload, or a part of one, with personal values masked. Empty values stay empty."""
    if isinstance(value, dict):
        return {key: mask(below, key) for key, below in value.items()}
    if isinstance(value, list):
        return [mask(item, name) for item in value]
    if value in (None, "") or isinstance(value, bool):
        return value
    return MASK if _PERSONAL.fullmatch(name) else value


def mask_differences(account: AccountDifference) -> AccountDifference:
    """Return the differences of an account with personal values masked."""
    return replace(account, values=[_mask_difference(it) for it in account.values])


def _mask_difference(found: FieldDifference) -> FieldDifference:
    name = next((it for it in reversed(found.path.split(".")) if not it.isdecimal()), "")
    if isinstance(found.staged or found.created, dict | list):  # a whole row
        return replace(found, staged=mask(found.staged, name), created=mask(found.created, name))
    # A value that the account does not have may be the supplier's own, and personal.
    if not is_personal(found.path) and found.created is not None:
        return found
    staged, created = (None if it is None else MASK for it in (found.staged, found.created))
    return replace(found, staged=staged, created=created)


def reveal(subject: str) -> None:
    """Let the operator see the personal data of `subject` for some minutes. The caller audits it."""
    until = (datetime.now(UTC) + _SHOWN_FOR).timestamp()
    others = [item for item in session.get(_REVEALED, []) if item[0] != subject]
    session[_REVEALED] = [*others, [subject, until]][-_MOST_REVEALED:]


def is_revealed(subject: str) -> bool:
    """Return whether the operator has revealed the data of `subject` recently enough to see it."""
    if not current_operator().role.includes(OperatorRole.OPERATE):
        return False
    now = datetime.now(UTC).timestamp()
    return any(name == subject and until > now for name, until in session.get(_REVEALED, []))
