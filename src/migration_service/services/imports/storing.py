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
from migration_service.states import ImportState, StagingResult


def _of_content(column: str, new: str = "", same: str = "") -> str:
    """Return the new value of a column that changes only if the contents of the payload change.

    An unchanged payload is not rewritten, only the reference to it.
    """
    return f"""CASE process.payload_sha256 WHEN excluded.payload_sha256
            THEN {same or f"process.{column}"} ELSE {new or f"excluded.{column}"} END"""


_MARK = ("refused_at", "refused_errors", "refused_extracted_at", "refused_batch_id", "refused_line_number")
# A version from an earlier extract than the refused one keeps the mark: it is not the newest either.
_CLEARS = "%(is_sent)s AND coalesce(excluded.extracted_at >= process.refused_extracted_at, true)"


def _without_mark(column: str) -> str:
    return f"{column} = CASE WHEN {_CLEARS} THEN NULL ELSE process.{column} END"


# A version from an earlier extract is never stored.
_LATER_EXTRACT = "coalesce(excluded.extracted_at, process.extracted_at)"


def _stage(sent: str) -> str:
    # With ORDER BY, two transactions with the same accounts wait for each other instead of deadlocking. ON
    # CONFLICT locks the row even if the WHERE clause excludes it, so the clause is also right for concurrent
    # versions. xmax is 0 in an inserted row.
    return f"""
    INSERT INTO account_import_process AS process
        (import_supplier_id, external_account_number, state, payload, payload_sha256, rules_version, profile,
         warnings, extracted_at, staged_by_api_key_id, staged_request_id, staged_address)
    SELECT %(import_supplier_id)s::bigint, number, '{ImportState.PENDING}', payload, sha256,
           %(rules_version)s, %(profile)s, nullif(warnings, '[]'), %(extracted_at)s::timestamptz,
           %(api_key_id)s::bigint, %(request_id)s, %(address)s
    FROM {sent} AS sent (number, payload, sha256, warnings)
    WHERE NOT EXISTS (SELECT FROM skip_mark WHERE skip_mark.import_supplier_id = %(import_supplier_id)s
                      AND skip_mark.external_account_number = number)
    ORDER BY number
    ON CONFLICT (import_supplier_id, external_account_number) DO UPDATE
    SET payload = {_of_content("payload")}, payload_sha256 = excluded.payload_sha256,
        rules_version = excluded.rules_version, profile = excluded.profile, warnings = excluded.warnings,
        staged_at = {_of_content("staged_at", "now()")},
        staged_by_api_key_id = {_of_content("staged_by_api_key_id")},
        staged_request_id = {_of_content("staged_request_id")},
        staged_address = {_of_content("staged_address")},
        extracted_at = {_of_content("extracted_at", same=_LATER_EXTRACT)},
        {", ".join(map(_without_mark, _MARK))}
    WHERE process.state IN ('{ImportState.PENDING}')
      AND coalesce(excluded.extracted_at >= process.extracted_at, true)
      AND (%(replaces)s OR process.payload_sha256 = excluded.payload_sha256)
      AND (process.payload_sha256 <> excluded.payload_sha256
           OR process.rules_version <> excluded.rules_version OR process.profile <> excluded.profile
           OR ({_CLEARS} AND process.refused_at IS NOT NULL)
           OR excluded.extracted_at > coalesce(process.extracted_at, '-infinity'))
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
           process.refused_at IS NOT NULL AS is_marked
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
    #: Whether a newer version was sent and refused.
    is_marked: bool = False

    @property
    def first(self) -> bool:
        """Return whether this was the first staging of the account."""
        return self.result is StagingResult.STAGED

    def is_later_than(self, extracted_at: datetime | None) -> bool:
        """Return whether its version is from a later extract."""
        return extracted_at is not None and self.extracted_at is not None and extracted_at < self.extracted_at


def stage(
    connection: SqlConnection,
    supplier: KnownSupplier,
    accounts: Sequence[ValidatedAccount],
    *,
    profile: str | None = None,
    extracted_at: datetime | None = None,
    is_sent: bool = True,
) -> list[StagedProcess]:
    """Store valid payloads of different accounts (`states.STAGE`). Return the processes in the same order.

    The same payload again changes nothing. Nor does a payload whose account can no longer be staged, as shown
    by the state of its process, or one whose staged version has a later extract than `extracted_at`.
    `profile` is the one that the payloads passed, or None for the supplier's profile. The mark of a refused
    newer version stays if its extract is later than `extracted_at`. `is_sent` is False for payloads that were
    staged before and have only been revalidated. Within an OpenTransaction the processes are locked.
    """
    order = {
        "import_supplier_id": supplier.id,
        "rules_version": RULES_VERSION,
        "profile": profile or supplier.profile,
        "extracted_at": extracted_at,
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
    others = find(connection, order["import_supplier_id"], numbers) if left else {}
    differing: list[tuple[ValidatedAccount, StagedProcess]] = []
    for account in left:
        process = others.get(account.number)
        if process is None:
            continue
        if process.state is not ImportState.PENDING or process.is_later_than(order["extracted_at"]):
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
    hashes, same = [], {}
    for account, process in staged:
        payload = payloads.get(process.id)
        if payload and say_the_same(account, payload):
            same[account.number] = replace(process, result=StagingResult.UNCHANGED)
        hashes.append(process.payload_sha256 if account.number in same else account.sha256)
    return same | _write(connection, order, [account for account, _ in staged], hashes, replaces=True)


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
    rows = connection.execute(_FIND, {"import_supplier_id": import_supplier_id, "numbers": list(numbers)})
    return {
        row.external_account_number: StagedProcess(
            row.id,
            ImportState(row.state),
            service_account_number=row.service_account_number,
            payload_sha256=row.payload_sha256,
            extracted_at=row.extracted_at,
            is_marked=bool(row.is_marked),
        )
        for row in rows
    }


def say_the_same(account: ValidatedAccount, payload: str) -> bool:
    """Return whether an account has the payload of a process, maybe in another notation."""
    return not any(ACCOUNT.find_differences(read_json(account.json), read_json(payload)))


def read_payloads(connection: SqlConnection, process_ids: Sequence[int]) -> dict[int, str | None]:
    """Return the payloads of processes that were not erased, as JSON, or None if one is no longer kept."""
    rows = connection.execute(_READ, {"process_ids": list(process_ids)}) if process_ids else []
    return {row.id: row.payload for row in rows}


_READ = """
    SELECT id, payload::text AS payload FROM account_import_process
    WHERE id = ANY(%(process_ids)s) AND payload_sha256 <> ''
"""
