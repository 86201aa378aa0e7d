"""The differences between a payload and the one that an account was created from."""

from collections.abc import Sequence
from itertools import islice

from migration_payloads.normal_form import ACCOUNT, FieldDifference, read_json
from migration_payloads.validation import ValidatedAccount
from migration_service.db.sql import SqlConnection
from migration_service.errors import ErrorItem, PayloadDiffersError
from migration_service.services.imports.storing import StagedProcess, read_payloads

#: The largest number of paths listed for an account.
MOST_PATHS = 20
_OTHER = "The account was created with another value."
_NONE = "The account was created without this."
_MORE = "The account was created with a value here, which this payload lacks."
_FURTHER = f"There are further differences: the first {MOST_PATHS} are listed."
_REMOVED = "The account was created from another payload, which is no longer kept. The paths are unknown."


def compare_with_created(
    connection: SqlConnection, repeated: Sequence[tuple[StagedProcess, ValidatedAccount]]
) -> list[list[ErrorItem]]:
    """Return, for each repeated account, the differences from the payload it was created from.

    The payloads are read only if the hashes differ, and compared in their normal form. Only paths are
    reported, not values, and nothing for erased accounts.
    """
    others = [process.id for process, account in repeated if process.payload_sha256 != account.sha256]
    created = read_payloads(connection, others)
    return [
        _describe(created[process.id], account.json) if process.id in created else []
        for process, account in repeated
    ]


def _describe(created: str | None, sent: bytes) -> list[ErrorItem]:
    if created is None:
        return [ErrorItem(PayloadDiffersError.code, _REMOVED)]
    found = [*islice(ACCOUNT.find_differences(read_json(sent), read_json(created)), MOST_PATHS + 1)]
    items = [ErrorItem(PayloadDiffersError.code, _say(it), it.path) for it in found[:MOST_PATHS]]
    return items + [ErrorItem(PayloadDiffersError.code, _FURTHER)] * (len(found) > MOST_PATHS)


def _say(difference: FieldDifference) -> str:
    # The payload just sent is compared with the staged one, which takes the place of the created values.
    if difference.created is None:
        return _NONE
    return _MORE if difference.staged is None else _OTHER
