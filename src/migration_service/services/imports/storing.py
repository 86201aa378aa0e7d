"""Storing payloads, and finding their processes (section 4.2).

A single statement stores one payload or many. It determines whether a payload is new, so that concurrent
transactions with the same account need no lock first. Only if the text of a staged payload is another one,
the two are read and compared: in another notation, it is the same payload.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from migration_payloads.normal_form import ACCOUNT, read_json
from migration_payloads.rules.catalogue import RULES_VERSION
from migration_payloads.validation import ValidatedAccount
from migration_service.db.sql import SqlConnection
from migration_service.origin import current_origin
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchKind, BatchMode, BatchSource, BatchState, ImportState, StagingResult


def _of_content(column: str, new: str = "", same: str = "") -> str:
    """Return the new value of a column that changes only if the contents of the payload change.

    An unchanged payload is not rewritten, only the reference to it.
    """
    return f"""CASE process.payload_sha256 WHEN excluded.payload_sha256
            THEN {same or f"process.{column}"} ELSE {new or f"excluded.{column}"} END"""


def is_earlier_than(extracted_at: str, sent_at: str) -> str:
    """Return the condition that the version being stored is earlier than the one with these columns.

    The extracts decide, if both are known and not equal. What is sent now is not earlier than anything.
    """
    return f"""coalesce(CASE WHEN %(extracted_at)s::timestamptz <> {extracted_at}
            THEN %(extracted_at)s::timestamptz < {extracted_at}
            ELSE %(sent_at)s::timestamptz < {sent_at} END, false)"""


_EARLIER_EXTRACT = "coalesce(%(extracted_at)s::timestamptz < process.extracted_at, false)"
_EARLIER = is_earlier_than("process.extracted_at", "process.sent_at")
#: The version that is stored is not earlier than the refused one, so it is the newest.
CLEARS_MARK = f"NOT {is_earlier_than('process.refused_extracted_at', 'process.refused_sent_at')}"
_IS_NEWEST = f"%(is_sent)s AND {CLEARS_MARK}"
# A newer version was refused after this one had been sent. Nothing is created from it then.
_REFUSED_LATER = (
    f"(NOT {CLEARS_MARK} AND coalesce(%(sent_at)s::timestamptz < process.refused_sent_at, false))"
)

#: The version was sent again while another one waits on a line of an earlier batch, and settles that.
SENT_AGAIN = f"""(
    coalesce(%(sent_at)s::timestamptz, now()) > process.sent_at AND NOT {_EARLIER}
    AND EXISTS (SELECT FROM batch
                WHERE batch.import_supplier_id = %(import_supplier_id)s AND kind = '{BatchKind.ACCOUNTS}'
                  AND mode IN ('{BatchMode.STAGE}', '{BatchMode.IMPORT}')
                  AND source = '{BatchSource.UPLOAD}' AND batch.state <> '{BatchState.COMPLETED}'
                  AND created_at < coalesce(%(sent_at)s::timestamptz, now())))"""

_MARK = (
    *("refused_at", "refused_errors", "refused_sent_at"),
    *("refused_extracted_at", "refused_batch_id", "refused_line_number", "refused_payload"),
)


def without_mark(condition: str) -> str:
    """Return the assignments that remove the mark of a refused newer version on this condition."""
    return ", ".join(
        f"{column} = CASE WHEN {condition} THEN NULL ELSE process.{column} END" for column in _MARK
    )


# A version from an earlier extract is never stored.
_LATER_EXTRACT = "coalesce(excluded.extracted_at, process.extracted_at)"
_LATER_SENT = "greatest(process.sent_at, excluded.sent_at)"


def _stage(sent: str) -> str:
    # With ORDER BY, two transactions with the same accounts wait for each other instead of deadlocking. ON
    # CONFLICT locks the row even if the WHERE clause excludes it, so the clause is also right for concurrent
    # versions. xmax is 0 in an inserted row.
    return f"""
    INSERT INTO account_import_process AS process
        (import_supplier_id, external_account_number, state, payload, payload_sha256, content_hash,
         rules_version, profile, warnings, extracted_at, sent_at, staged_by_api_key_id, staged_request_id,
         staged_address)
    SELECT %(import_supplier_id)s::bigint, number, '{ImportState.PENDING}', payload, sha256,
           jsonb_hash_extended(payload, 0),
           %(rules_version)s, %(profile)s, nullif(warnings, '[]'), %(extracted_at)s::timestamptz,
           coalesce(%(sent_at)s::timestamptz, now()),
           %(api_key_id)s::bigint, %(request_id)s, %(address)s
    FROM {sent} AS sent (number, payload, sha256, warnings)
    WHERE NOT EXISTS (SELECT FROM skip_mark WHERE skip_mark.import_supplier_id = %(import_supplier_id)s
                      AND skip_mark.external_account_number = number)
    ORDER BY number
    ON CONFLICT (import_supplier_id, external_account_number) DO UPDATE
    SET payload = {_of_content("payload")}, payload_sha256 = excluded.payload_sha256,
        content_hash = {_of_content("content_hash")},
        rules_version = excluded.rules_version, profile = excluded.profile, warnings = excluded.warnings,
        staged_at = {_of_content("staged_at", "now()")},
        staged_by_api_key_id = {_of_content("staged_by_api_key_id")},
        staged_request_id = {_of_content("staged_request_id")},
        staged_address = {_of_content("staged_address")},
        extracted_at = {_of_content("extracted_at", same=_LATER_EXTRACT)},
        sent_at = CASE WHEN %(is_sent)s THEN {_of_content("sent_at", same=_LATER_SENT)}
                       ELSE process.sent_at END,
        {without_mark(_IS_NEWEST)}
    WHERE process.state IN ('{ImportState.PENDING}') AND NOT {_EARLIER_EXTRACT} AND NOT {_REFUSED_LATER}
      AND (process.payload_sha256 = excluded.payload_sha256 OR %(replaces)s AND NOT {_EARLIER})
      AND (process.payload_sha256 <> excluded.payload_sha256
           OR process.rules_version <> excluded.rules_version OR process.profile <> excluded.profile
           OR ({_IS_NEWEST} AND process.refused_at IS NOT NULL)
           OR excluded.extracted_at > coalesce(process.extracted_at, '-infinity')
           OR %(is_sent)s AND {SENT_AGAIN})
    RETURNING id, external_account_number, xmax = 0 AS is_first, staged_at = now() AS is_new
    """


# Binary parameters (%b): for an array in text form the driver would have to escape every quotation mark of
# the payloads, which takes twenty times as long.
_STAGE_MANY = _stage(
    "unnest(%(numbers)s::text[], %(payloads)b::jsonb[], %(hashes)b::bytea[], %(warnings)b::jsonb[])"
)
# A request stages one account. This is cheaper without arrays, for the driver and for PostgreSQL, which would
# plan for ten rows.
_STAGE_ONE = _stage(
    "(VALUES (%(numbers)s::text, %(payloads)b::jsonb, %(hashes)b::bytea, %(warnings)b::jsonb))"
)

# A skip mark counts for an account without a process, and for one that was staged concurrently.
_FIND = f"""
    SELECT external_account_number, coalesce(process.id, 0) AS id,
           CASE WHEN mark.created_at IS NOT NULL AND coalesce(process.state, '{ImportState.PENDING}')
                     = '{ImportState.PENDING}' THEN '{ImportState.SKIPPED}' ELSE process.state END AS state,
           process.service_account_number, process.payload_sha256, process.extracted_at,
           CASE WHEN {_REFUSED_LATER} THEN process.refused_at END AS refused_later, {_EARLIER} AS is_later
    FROM (SELECT * FROM account_import_process
          WHERE import_supplier_id = %(import_supplier_id)s
            AND external_account_number = ANY(%(numbers)s)) process
    FULL JOIN (SELECT * FROM skip_mark
               WHERE import_supplier_id = %(import_supplier_id)s
                 AND external_account_number = ANY(%(numbers)s)) mark
    USING (external_account_number)
"""


@dataclass(frozen=True, slots=True)
class StagedProcess:
    """The process of an account after staging. The payload is staged only if there is a result."""

    id: int
    state: ImportState
    result: StagingResult | None = None
    service_account_number: str | None = None
    #: The hash and extract of the staged or created version, if it is not the one just stored. The hash is
    #: empty once the account was erased.
    payload_sha256: bytes | None = None
    extracted_at: datetime | None = None
    #: When a version was refused that was sent after this one.
    refused_later: datetime | None = None
    #: Whether the staged version is later than this one, which is not stored.
    is_later: bool = False

    def is_of_later_extract(self, extracted_at: datetime | None) -> bool:
        """Return whether its version is from a later extract."""
        return extracted_at is not None and self.extracted_at is not None and extracted_at < self.extracted_at


def stage(
    connection: SqlConnection,
    supplier: KnownSupplier,
    accounts: Sequence[ValidatedAccount],
    *,
    profile: str | None = None,
    extracted_at: datetime | None = None,
    sent_at: datetime | None = None,
    is_sent: bool = True,
) -> list[StagedProcess]:
    """Store valid payloads of different accounts (`states.STAGE`). Return the processes in the same order.

    The same payload again changes nothing. Nor does a payload whose account can no longer be staged, as shown
    by the state of its process, or one that is earlier than the staged version or a refused one. `sent_at` is
    None for payloads that are sent now. `profile` is the one that the payloads passed, or None for the
    supplier's profile. `is_sent` is False for payloads that were staged before and have only been
    revalidated. Within an OpenTransaction the processes are locked.
    """
    order = {
        "import_supplier_id": supplier.id,
        "rules_version": RULES_VERSION,
        "profile": profile or supplier.profile,
        "extracted_at": extracted_at,
        "sent_at": sent_at if is_sent else None,
        "is_sent": is_sent,
    }
    found = _store(connection, order, accounts)
    if lost := [account for account in accounts if account.number not in found]:
        # The payload was neither stored nor staged already, so its process changed between the statements.
        found |= _store(connection, order, lost)
    in_progress = StagedProcess(0, ImportState.IN_PROGRESS)
    return [found.get(account.number, in_progress) for account in accounts]


def _store(
    connection: SqlConnection, order: Mapping[str, Any], accounts: Sequence[ValidatedAccount]
) -> dict[str, StagedProcess]:
    """Return the processes by number, except those whose state changed between the statements."""
    found = _write(connection, order, accounts, [account.sha256 for account in accounts], replaces=False)
    left = [account for account in accounts if account.number not in found]
    numbers = [account.number for account in left]
    others = _find(connection, order, numbers) if left else {}
    differing: list[tuple[ValidatedAccount, StagedProcess]] = []
    for account in left:
        process = others.get(account.number)
        if process is None:
            continue
        is_kept = process.refused_later or process.is_of_later_extract(order["extracted_at"])
        if process.state is not ImportState.PENDING or is_kept:
            found[account.number] = process
        elif process.payload_sha256 == account.sha256:
            found[account.number] = replace(process, result=StagingResult.UNCHANGED)
        else:
            differing.append((account, process))
    return found | (_replace(connection, order, differing) if differing else {})


def _replace(
    connection: SqlConnection,
    order: Mapping[str, Any],
    staged: Sequence[tuple[ValidatedAccount, StagedProcess]],
) -> dict[str, StagedProcess]:
    """Store payloads in place of others, unless these say the same in another notation."""
    payloads = read_payloads(connection, [process.id for _, process in staged])
    hashes, kept = [], {}
    for account, process in staged:
        payload = payloads.get(process.id)
        # In another notation it is the same.
        is_same = payload and not any(ACCOUNT.find_differences(read_json(account.json), read_json(payload)))
        if is_same:
            kept[account.number] = replace(process, result=StagingResult.UNCHANGED)
        elif process.is_later:
            kept[account.number] = process
        hashes.append(process.payload_sha256 if is_same else account.sha256)
    return kept | _write(connection, order, [account for account, _ in staged], hashes, replaces=True)


def _write(
    connection: SqlConnection,
    order: Mapping[str, Any],
    accounts: Sequence[ValidatedAccount],
    hashes: Sequence[bytes | None],
    *,
    replaces: bool,
) -> dict[str, StagedProcess]:
    """Insert or update the processes of these payloads. One whose hash is given keeps its own payload.

    Return the processes that were changed, by number.
    """
    sent: dict[str, list[object]] = {
        "numbers": [account.number for account in accounts],
        "payloads": [Jsonb(account.json, dumps=bytes) for account in accounts],
        "hashes": list(hashes),
        "warnings": [Jsonb([item.to_dict() for item in account.warnings]) for account in accounts],
    }
    alone = len(accounts) == 1
    rows = connection.execute(
        _STAGE_ONE if alone else _STAGE_MANY,
        {
            **order,
            "replaces": replaces,
            **({name: values[0] for name, values in sent.items()} if alone else sent),
            **current_origin().trace(),
        },
    )
    return {row.external_account_number: _stored(row) for row in rows}


def _stored(row: Any) -> StagedProcess:
    changed = StagingResult.REPLACED if row.is_new else StagingResult.UNCHANGED
    return StagedProcess(row.id, ImportState.PENDING, StagingResult.STAGED if row.is_first else changed)


def find(
    connection: SqlConnection, import_supplier_id: int, numbers: Sequence[str]
) -> dict[str, StagedProcess]:
    """Return the processes of these accounts by number. A skip mark without a process has the id 0."""
    order = {"import_supplier_id": import_supplier_id, "extracted_at": None, "sent_at": None}
    return _find(connection, order, numbers)


def _find(
    connection: SqlConnection, order: Mapping[str, Any], numbers: Sequence[str]
) -> dict[str, StagedProcess]:
    rows = connection.execute(_FIND, {**order, "numbers": list(numbers)})
    return {
        row.external_account_number: StagedProcess(
            row.id,
            ImportState(row.state),
            service_account_number=row.service_account_number,
            payload_sha256=row.payload_sha256,
            extracted_at=row.extracted_at,
            refused_later=row.refused_later,
            is_later=row.is_later,
        )
        for row in rows
    }


def read_payloads(connection: SqlConnection, process_ids: Sequence[int]) -> dict[int, str | None]:
    """Return the payloads of processes that were not erased, as JSON, or None if one is no longer kept."""
    rows = connection.execute(_READ, {"process_ids": list(process_ids)}) if process_ids else []
    return {row.id: row.payload for row in rows}


_READ = """
    SELECT id, payload::text AS payload FROM account_import_process
    WHERE id = ANY(%(process_ids)s) AND payload_sha256 <> ''
"""
