"""Newer versions of accounts that were sent but refused.

The staged or created version of the account is then not the supplier's newest one. Its process is marked
until the supplier sends a version that is accepted, or again the one that was created, and that is not
earlier than the refused one.

Extracts decide which of two versions is earlier. If that of either is not known, or they are equal, the
moments when they were sent decide: those of requests, or of the files of lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from uuid import UUID

from migration_payloads.moments import write_moment
from migration_payloads.normal_form import ACCOUNT, FieldDifference, read_json
from migration_payloads.schemas.account import LoadedAccount
from migration_payloads.schemas.json import encode_json, storable_text
from migration_payloads.validation import ValidatedAccount
from migration_service import errors
from migration_service.db.sql import SqlConnection
from migration_service.services.access.callers import Caller
from migration_service.services.imports import storing
from migration_service.services.setup.suppliers import KnownSupplier, find_import_supplier
from migration_service.states import ImportState


@dataclass(frozen=True, slots=True)
class RefusedVersion:
    """A refused version of an account, and the reason."""

    external_account_number: str
    errors: Sequence[errors.ErrorItem]
    #: The hash of its payload, if that is valid. The staged payload may be the same.
    sha256: bytes | None = None
    #: Its line in its batch.
    line_number: int | None = None
    #: Its payload, if that is valid.
    payload: bytes | None = None


# Locked in order of the numbers, as in staging. The arrays keep the planner from reading more than these
# accounts. The hash of an erased account is empty, and nothing is kept of later versions.
_MARK = f"""
    WITH locked AS MATERIALIZED (
        SELECT process.id, refused.errors, refused.line_number, refused.payload
        FROM jsonb_to_recordset(%(refused)s::jsonb)
                 AS refused (number text, errors jsonb, sha256 text, line_number bigint, payload text)
        JOIN account_import_process AS process
          ON process.import_supplier_id = %(import_supplier_id)s
         AND process.external_account_number = refused.number
         AND process.external_account_number = ANY (%(numbers)s)
        WHERE process.payload_sha256 <> ''
          AND NOT {storing.is_earlier_than("process.extracted_at", "process.sent_at")}
          AND NOT {storing.is_earlier_than("process.refused_extracted_at", "process.refused_sent_at")}
          AND (refused.sha256 IS NULL OR process.payload_sha256 <> decode(refused.sha256, 'hex'))
        ORDER BY process.external_account_number FOR UPDATE OF process)
    UPDATE account_import_process AS process
    SET refused_at = now(), refused_errors = locked.errors, refused_batch_id = %(batch_id)s,
        refused_sent_at = coalesce(%(sent_at)s::timestamptz, now()),
        refused_extracted_at = coalesce(%(extracted_at)s::timestamptz, process.refused_extracted_at),
        refused_line_number = locked.line_number, refused_payload = CAST(locked.payload AS jsonb)
    FROM locked WHERE process.id = locked.id AND process.id = ANY (ARRAY(SELECT id FROM locked))
    RETURNING process.id
"""

_CLEAR = f"""
    WITH locked AS MATERIALIZED (
        SELECT id FROM account_import_process AS process
        WHERE import_supplier_id = %(import_supplier_id)s AND external_account_number = ANY(%(numbers)s)
          AND (refused_at IS NOT NULL AND {storing.CLEARS_MARK} OR {storing.SENT_AGAIN})
        ORDER BY external_account_number FOR UPDATE)
    UPDATE account_import_process AS process
    SET {storing.without_mark(storing.CLEARS_MARK)},
        sent_at = greatest(sent_at, coalesce(%(sent_at)s::timestamptz, now())),
        extracted_at = greatest(extracted_at, %(extracted_at)s::timestamptz)
    FROM locked WHERE process.id = locked.id
    RETURNING process.id
"""


def note_refused(
    connection: SqlConnection,
    import_supplier_id: int,
    refused: Sequence[RefusedVersion],
    *,
    extracted_at: datetime | None = None,
    sent_at: datetime | None = None,
    batch_id: UUID | None = None,
) -> None:
    """Mark the accounts whose staged or created version is a different one. Other accounts are not changed.

    Nor are accounts with a staged, created or refused version that is later, because the refused ones are not
    the newest. `sent_at` is None for a version that is sent now.
    """
    rows = [
        {
            "number": one.external_account_number,
            "errors": [
                {name: storable_text(text) for name, text in item.to_dict().items()} for item in one.errors
            ],
            "sha256": one.sha256.hex() if one.sha256 else None,
            "line_number": one.line_number,
            "payload": one.payload and one.payload.decode(),
        }
        for one in refused
    ]
    values = {
        "import_supplier_id": import_supplier_id,
        "refused": encode_json(rows).decode(),
        "numbers": [one.external_account_number for one in refused],
    }
    sent = {"extracted_at": extracted_at, "sent_at": sent_at, "batch_id": batch_id}
    connection.execute(_MARK, values | sent)


def note_taken(
    connection: SqlConnection,
    import_supplier_id: int,
    numbers: Sequence[str],
    *,
    extracted_at: datetime | None,
    sent_at: datetime | None = None,
) -> None:
    """Remove the mark of created accounts that were sent again with the payload they were created from.

    The mark stays if the refused version is later.
    """
    values = {"import_supplier_id": import_supplier_id, "numbers": list(numbers)}
    connection.execute(_CLEAR, values | {"extracted_at": extracted_at, "sent_at": sent_at})


def say_refused(refused_at: datetime, found: Sequence[Mapping[str, Any]]) -> list[errors.ErrorItem]:
    """Return errors which say that an account is not its newest version, and list the differences."""
    differing = [
        errors.ErrorItem(**item) for item in found if item["code"] == errors.PayloadDiffersError.code
    ]
    return [*errors.NewerVersionRefusedError.at(write_moment(refused_at)).errors, *differing]


def note_invalid(
    reference: SqlConnection,
    connection: SqlConnection,
    caller: Caller,
    loaded: LoadedAccount,
    error: errors.ServiceError,
    *,
    extracted_at: datetime | None,
) -> None:
    """Mark the account of a payload that failed validation, if its supplier and number are known."""
    code = loaded.import_supplier
    number = loaded.data.get("external_account_number") if loaded.is_object else None
    if not isinstance(code, str) or not isinstance(number, str):
        return
    if supplier := find_import_supplier(reference, code, organisation_id=caller.organisation_id):
        refused = RefusedVersion(number, error.errors)
        note_refused(connection, supplier.id, [refused], extracted_at=extracted_at)


def explain_refusal(
    connection: SqlConnection,
    supplier: KnownSupplier,
    account: ValidatedAccount,
    process: storing.StagedProcess,
    error: errors.InvalidError,
    *,
    extracted_at: datetime | None,
) -> errors.InvalidError:
    """Return why a valid payload was not stored. Mark its account if a newer version is lost.

    The error of a created account lists the differences from the payload it was created from.
    """
    (differing,) = compare_with_created(connection, [(process, account)])
    found = error.errors
    if isinstance(error, errors.AccountAlreadyImportedError):
        found = differing
        error.errors += differing
    if differing and not isinstance(error, errors.NewerVersionStagedError):
        refused = RefusedVersion(account.number, found, account.sha256, payload=account.json)
        note_refused(connection, supplier.id, [refused], extracted_at=extracted_at)
    elif process.state is ImportState.IMPORTED:
        note_taken(connection, supplier.id, [account.number], extracted_at=extracted_at)
    return error


#: The largest number of paths listed for an account.
MOST_PATHS = 20
_OTHER = "The account was created with another value."
_NONE = "The account was created without this."
_MORE = "The account was created with a value here, which this payload lacks."
_FURTHER = f"There are further differences: the first {MOST_PATHS} are listed."
_REMOVED = "The account was created from another payload, which is no longer kept. The paths are unknown."


def compare_with_created(
    connection: SqlConnection, repeated: Sequence[tuple[storing.StagedProcess, ValidatedAccount]]
) -> list[list[errors.ErrorItem]]:
    """Return, for each repeated account, the differences from the payload it was created from.

    The payloads are read only if the hashes differ, and compared in their normal form. Only paths are
    reported, not values, and nothing for erased accounts.
    """
    others = [process.id for process, account in repeated if process.payload_sha256 != account.sha256]
    created = storing.read_payloads(connection, others)
    return [
        _list_differences(created[process.id], account.json) if process.id in created else []
        for process, account in repeated
    ]


def _list_differences(created: str | None, sent: bytes) -> list[errors.ErrorItem]:
    if created is None:
        return [errors.ErrorItem(errors.PayloadDiffersError.code, _REMOVED)]
    found = [*islice(ACCOUNT.find_differences(read_json(sent), read_json(created)), MOST_PATHS + 1)]
    items = [
        errors.ErrorItem(errors.PayloadDiffersError.code, _name_difference(it), it.path)
        for it in found[:MOST_PATHS]
    ]
    return items + [errors.ErrorItem(errors.PayloadDiffersError.code, _FURTHER)] * (len(found) > MOST_PATHS)


def _name_difference(difference: FieldDifference) -> str:
    # The payload just sent is compared with the staged one, which takes the place of the created values.
    if difference.created is None:
        return _NONE
    return _MORE if difference.staged is None else _OTHER
