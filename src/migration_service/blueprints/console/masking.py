"""Masking personal data, until an operator asks for it.

A mask shows only that a value exists. What is personal is said by the fields of payloads
(`migration_payloads.schemas.privacy`), and what no field is known for may be personal, too. The numbers of
accounts, meter points and the like are not masked, because people search by them.
"""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from flask import session

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_payloads.schemas.fields import Choice, Flag
from migration_payloads.schemas.privacy import has_telephone_number, is_nobodys, walk_fields
from migration_service.blueprints.console.access import current_operator
from migration_service.schemas import added_data
from migration_service.services.access.operators import OperatorRole
from migration_service.services.reconciliation.differences import AccountDifference

MASK = "•••"

_SCHEMAS = (
    ACCOUNT_IMPORT,
    added_data.NotesRequestSchema(),
    added_data.TransactionsRequestSchema(),
    added_data.StatementsRequestSchema(),
    added_data.PaymentInstructionRequestSchema(),
)


_PATHS = [(path.split("."), field) for schema in _SCHEMAS for path, field in walk_fields(schema)]
#: The fields of payloads by name. Of several fields, the one whose values are masked counts.
_FIELDS = {path[-1]: field for path, field in sorted(_PATHS, key=lambda it: bool(it[1].personal))}
#: Members of accounts that the service adds, and the code that an operator has chosen for a supplier.
_OWN = frozenset(
    {
        *("service_account_number", "account_created_at", "import_supplier"),
        *("statement_location", "historical_contract_pdf_location", "document_location"),
    }
)
#: Objects whose members are known.
_OBJECTS = frozenset(
    {
        *(part for path, _ in _PATHS for part in path[:-1]),
        *("added_notes", "added_payment_instructions", "added_statements", "added_transactions", "documents"),
    }
)
_UNKNOWN_FIELD = "unknown_field"
_REVEALED = "revealed"
_MOST_REVEALED = 20
#: How long revealed data stays visible to an operator.
_SHOWN_FOR = timedelta(minutes=10)


def is_personal(path: str) -> bool:
    """Return whether the value at a path of a payload, such as `customers.1.landline`, may be personal."""
    *above, name = _names_in(path)
    if not _OBJECTS.issuperset(above):
        return True
    return name not in _OBJECTS | _OWN | {""} and bool(getattr(_FIELDS.get(name), "personal", True))


def _names_in(path: str) -> list[str]:
    return [part for part in path.split(".") if not part.isdecimal() and part != "*"] or [""]


def repeats_personal(code: str, path: str) -> bool:
    """Return whether the sentence of a finding may repeat a personal value, and not just a member's name."""
    return code != _UNKNOWN_FIELD and is_personal(path)


def mask(value: Any, name: str = "", *, is_known: bool = True) -> Any:
    """Return a payload, or a part of one, with personal values masked. Empty values stay empty.

    What is below a member that is not known is masked, whatever it is called.
    """
    if isinstance(value, dict):
        is_known = is_known and name in _OBJECTS | {""}
        return {key: mask(below, key, is_known=is_known) for key, below in value.items()}
    if isinstance(value, list):
        return [mask(item, name, is_known=is_known) for item in value]
    if value in (None, "") or isinstance(value, bool):
        return value
    return value if is_known and _may_be_shown(value, name) else MASK


def mask_at(path: str, value: Any) -> Any:
    """Return the value at a path of a payload, or a part of one, with personal values masked."""
    *above, name = _names_in(path)
    return mask(value, name, is_known=_OBJECTS.issuperset(above))


def _may_be_shown(value: Any, name: str) -> bool:
    field = _FIELDS.get(name)
    if name in _OWN or field is None:
        return name in _OWN
    if field.personal or field.identifying:
        return field.identifying
    # A single wrong word in place of a listed one tells what is wrong.
    is_word = (
        isinstance(field, Choice | Flag) and " " not in str(value) and not has_telephone_number(str(value))
    )
    return is_word or isinstance(value, date) or is_nobodys(field, value)


def mask_differences(account: AccountDifference) -> AccountDifference:
    """Return the differences of an account with personal values masked."""
    values = [
        replace(it, staged=mask_at(it.path, it.staged), created=mask_at(it.path, it.created))
        for it in account.values
    ]
    return replace(account, values=values)


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
