"""The differences between a payload and the one that an account was created from."""

from collections.abc import Sequence
from itertools import islice

from migration_payloads.validation import ValidatedAccount
from migration_service.db.sql import SqlConnection
from migration_service.errors import ErrorItem, PayloadDiffersError
from migration_service.services.imports.field_differences import (
    FieldDifference,
    compare_fields,
    read_json,
)
from migration_service.services.imports.storing import StagedProcess

#: The largest number of paths listed for an account.
MOST_PATHS = 20
_OTHER = "The account was created with another value."
_NONE = "The account was created without this."
_MORE = "The account was created with a value here, which this payload lacks."
_FURTHER = f"There are further differences: the first {MOST_PATHS} are listed."
_REMOVED = "The account was created from another payload, which is no longer kept. The paths are unknown."

_READ = """
    SELECT id, payload::text AS payload FROM account_import_process
    WHERE id = ANY(%(process_ids)s) AND payload_sha256 <> ''
"""


def compare_with_created(
    connection: SqlConnection, repeated: Sequence[tuple[StagedProcess, ValidatedAccount]]
) -> list[list[ErrorItem]]:
    """Return, for each repeated account, the differences from the payload it was created from.

    The payloads are read only if the hashes differ. The order of members and the notation of numbers do not
    count. Only paths are reported, not values, and nothing for erased accounts.
    """
    others = [process.id for process, account in repeated if process.payload_sha256 != account.sha256]
    rows = connection.execute(_READ, {"process_ids": others}) if others else []
    created = {row.id: row.payload for row in rows}
    return [
        _describe(created[process.id], account.json) if process.id in created else []
        for process, account in repeated
    ]


def _describe(created: str | None, sent: bytes) -> list[ErrorItem]:
    if created is None:
        return [ErrorItem(PayloadDiffersError.code, _REMOVED)]
    found = [*islice(compare_fields(read_json(created), read_json(sent)), MOST_PATHS + 1)]
    items = [ErrorItem(PayloadDiffersError.code, _say(it), it.path) for it in found[:MOST_PATHS]]
    return items + [ErrorItem(PayloadDiffersError.code, _FURTHER)] * (len(found) > MOST_PATHS)


def _say(difference: FieldDifference) -> str:
    # The staged payload is compared with the one just sent, which takes the place of the created values.
    if difference.staged is None:
        return _NONE
    return _MORE if difference.created is None else _OTHER
