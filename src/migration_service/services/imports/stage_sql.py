"""The statements behind `states.stage` and `states.find`."""

from migration_service.states import ImportState


def _of_content(column: str, new: str = "", same: str = "") -> str:
    """Return the value of a column that changes only together with the content of the payload.

    A payload that stays is not written once more, only the reference to it.
    """
    return f"""CASE process.payload_sha256 WHEN excluded.payload_sha256
            THEN {same or f"process.{column}"} ELSE {new or f"excluded.{column}"} END"""


_MARK = ("refused_at", "refused_errors", "refused_extracted_at", "refused_batch_id", "refused_line_number")
# A version of an earlier extract than the refused one is not the newest one either.
_CLEARS = "%(is_sent)s AND coalesce(excluded.extracted_at >= process.refused_extracted_at, true)"


def _without_mark(column: str) -> str:
    return f"{column} = CASE WHEN {_CLEARS} THEN NULL ELSE process.{column} END"


# An earlier one is never stored.
_LATER_EXTRACT = "coalesce(excluded.extracted_at, process.extracted_at)"


def _stage(sent: str) -> str:
    # ORDER BY makes two transactions with the same accounts wait for each other instead of deadlocking.
    # ON CONFLICT locks the row even if the WHERE says that nothing changes, so that the WHERE decides about
    # two extracts at once. xmax is 0 in a row that an INSERT made.
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
      AND (process.payload_sha256 <> excluded.payload_sha256
           OR process.rules_version <> excluded.rules_version OR process.profile <> excluded.profile
           OR ({_CLEARS} AND process.refused_at IS NOT NULL)
           OR excluded.extracted_at > coalesce(process.extracted_at, '-infinity'))
    RETURNING id, external_account_number, xmax = 0 AS is_first, staged_at = now() AS is_new
    """


# Binary parameters (%b): in an array in text form the driver would have to escape every quotation mark of the
# payloads, which takes twenty times as long.
STAGE_MANY = _stage(
    "unnest(%(numbers)s::text[], %(payloads)b::jsonb[], %(hashes)b::bytea[], %(warnings)b::jsonb[])"
)
# A request stages one account. Without arrays that is cheaper for the driver and for PostgreSQL, which
# would plan for ten rows.
STAGE_ONE = _stage(
    "(VALUES (%(numbers)s::text, %(payloads)b::jsonb, %(hashes)b::bytea, %(warnings)b::jsonb))"
)

# A mark to skip counts for an account without a process, and for one that was staged at the same moment.
FIND = f"""
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
