"""Erasing the personal data of one account, at the request of the person concerned.

The two account numbers, and the amounts and dates of bookings, are kept, so that the books still balance and
nobody is billed twice. Everything that identifies or describes a person or a connection is erased.
docs/operators/personal-data.md covers copies outside the tables (backups, the write-ahead log).
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any, cast
from uuid import UUID

from marshmallow import Schema
from marshmallow.fields import Nested
from psycopg.errors import DeadlockDetected, LockNotAvailable
from sqlalchemy import ARRAY, BigInteger, Column, CursorResult, Row, TextClause, bindparam, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from migration_payloads.schemas.account import ACCOUNT_IMPORT
from migration_service import errors
from migration_service.db.base import Base, literals
from migration_service.models import Account
from migration_service.models.part import Part, path_of, payload_columns, table_of
from migration_service.services.accounts.removal import rows_of_accounts, statements_about_persons
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.idempotency.keys import void_keys
from migration_service.services.imports.skipping import skip_accounts
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import ImportState, LineStatus


def erase_account(
    session: Session,
    supplier: KnownSupplier,
    external_account_number: str,
    *,
    reason: str,
    by: str | None = None,
) -> dict[str, Any]:
    """Erase all personal data of one account, and return how much of it, by the names of the interface.

    Erasing it again changes nothing.

    A created account keeps its numbers, ledgers, transactions and statements, without their texts. An account
    that was not created is removed and marked to be skipped, so that a batch that still contains it does not
    restore it. `reason` is recorded in the audit and must not contain personal data. `by` names the person
    who decided, if not the actor. Raise AccountImportInProgressError while the account is being created, and
    AccountNotStagedError if it is unknown. Raise ShareUsedError while another account of the organisation is
    being erased, because the search for its lines is expensive.
    """
    if not session.scalar(_HOLD_ORGANISATION, {"organisation_id": supplier.organisation_id}):
        raise errors.ShareUsedError(
            "Another erasure of your organisation is under way. Send one after the other."
        )
    values = {"import_supplier_id": supplier.id, "number": external_account_number}
    # The lines are locked first, as in a worker, so that the following statements see its outcomes.
    try:
        session.execute(_LOCK_COMPARISONS, values)
        session.execute(_LOCK_CERTIFICATES, values)
        lines = _erase_lines(session, values)
        process = session.execute(_LOCK_PROCESS, values).one_or_none()
    except DBAPIError as error:
        # A worker has held a lock for longer than the lock time-out.
        if isinstance(error.orig, (LockNotAvailable, DeadlockDetected)):
            raise errors.AccountImportInProgressError from error
        raise
    if process is not None and process.state == ImportState.IN_PROGRESS:
        raise errors.AccountImportInProgressError
    if process is None and not lines and session.execute(_FIND_MARK, values).first() is None:
        detail = f"Nothing is known of account {external_account_number!r}."
        raise errors.AccountNotStagedError(f"{detail} Check the number and the import supplier.")
    customers = 0
    if process is not None and process.state == ImportState.IMPORTED:
        customers = _erase_created(session, process.id)
    else:
        _remove_staged(session, supplier, external_account_number, process)
    session.execute(_ERASE_COMPARED, values)
    record(
        session,
        AuditAction.ACCOUNT_ERASED,
        "account",
        process.id if process else f"{supplier.code}, never staged",
        organisation_id=supplier.organisation_id,
        details={
            "reason": reason,
            "batch_lines": lines,
            "customers": customers,
            **({"by": by} if by else {}),
        },
    )
    return {
        "external_account_number": external_account_number,
        "service_account_number": process.service_account_number if process else None,
        "payload": bool(process and process.has_payload),
        "batch_lines": lines,
        "customers": customers,
        "kept_answers": void_keys(session, supplier.code, [external_account_number]),
    }


def _erase_created(session: Session, process_id: int) -> int:
    """Erase the personal data of a created account, and return the number of its customers."""
    account_id = session.execute(_LOCK_ACCOUNT, {"process_id": process_id}).scalar_one()
    removed = {
        table: cast(CursorResult[Any], session.execute(statement, {"account_ids": [account_id]})).rowcount
        for table, statement in _erasing_statements().items()
    }
    session.execute(_MARK_ACCOUNT, {"account_id": account_id})
    session.execute(_ERASE_PROCESS, {"process_id": process_id})
    session.execute(_ERASE_ATTEMPTS, {"process_id": process_id})
    return removed["customer"]


def _remove_staged(session: Session, supplier: KnownSupplier, number: str, process: Row[Any] | None) -> None:
    if process is not None:
        session.execute(REMOVE_PROCESSES, {"process_ids": [process.id]})
    skip_accounts(session, supplier.id, [number])
    session.execute(_MARK_ERASED, {"import_supplier_id": supplier.id, "number": number})


def erase_outcomes(
    session: Session, import_supplier_id: int, batch_id: UUID, line_numbers: Sequence[int] | None = None
) -> None:
    """Erase lines that have just got their outcome if their account was erased before.

    Without numbers, these are all lines of the batch that have failed.
    """
    values = {"import_supplier_id": import_supplier_id, "batch_id": batch_id}
    if line_numbers is None:
        session.execute(_ERASE_FAILED, values)
    elif line_numbers:
        session.execute(_ERASE_OUTCOMES, values | {"line_numbers": list(line_numbers)})


def remove_staged_again(session: Session, *, limit: int) -> int:
    """Remove accounts that were staged while they were being erased, and return their number.

    They are marked to be skipped, so they have not been processed.
    """
    ids = [row.id for row in session.execute(_LOCK_STAGED_AGAIN, {"limit": limit})]
    session.execute(REMOVE_PROCESSES, {"process_ids": ids})
    return len(ids)


def _erase_lines(session: Session, values: dict[str, Any]) -> int:
    """Erase the lines with the number and their acknowledgements, and return how many lines there were.

    A line without a number that can be read is searched for both spellings of the number.
    """
    number = values["number"]
    spelt = {
        "plain": json.dumps(number, ensure_ascii=False).encode(),
        "escaped": json.dumps(number).encode(),
    }
    lines = session.execute(_ERASE_LINES, values | spelt).all()
    places = {"batch_ids": [it.batch_id for it in lines], "line_numbers": [it.line_number for it in lines]}
    session.execute(_ERASE_REASONS, values | places)
    return len(lines)


#: Lock the organisation until the transaction ends. False if another erasure has locked it. The first number
#: distinguishes these advisory locks from others.
_HOLD_ORGANISATION = text("SELECT pg_try_advisory_xact_lock(7215, hashint8(:organisation_id))")

_LOCK_PROCESS = text("""
    SELECT id, state, service_account_number, payload IS NOT NULL AS has_payload
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
    FOR UPDATE
""")

_FIND_MARK = text("""
    SELECT FROM skip_mark
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: Locked, so that nothing is added to the account in the meantime.
_LOCK_ACCOUNT = text("SELECT id FROM account WHERE account_import_process_id = :process_id FOR UPDATE")

_OPEN = literals(status for status in LineStatus if status.is_open)

# The codes of errors are kept, because they are counted. Their texts may contain values that were sent.
_CODES_ONLY = """(
    SELECT jsonb_agg(jsonb_build_object('detail', 'Erased.', 'code', item ->> 'code', 'attr', NULL))
    FROM jsonb_array_elements(line.{}) AS item)"""

# The line means this number. It is not that of another account, such as 12.0 besides 12.
_MEANS = """(line.external_account_number = {0} OR line.meant_number = {0} AND NOT EXISTS (
        SELECT FROM account_import_process AS own
        WHERE own.import_supplier_id = :import_supplier_id
              AND own.external_account_number = line.external_account_number))"""

#: The lines that mean the number, and lines without one whose text contains it. All have an index. A worker
#: locks the lines that it processes, so this waits for their outcomes and then erases them.
_ERASE_LINES = text(f"""
    WITH kept AS MATERIALIZED (
        SELECT id FROM batch WHERE import_supplier_id = :import_supplier_id AND lines_removed_at IS NULL),
    found AS MATERIALIZED (
        SELECT batch_id, line_number FROM kept JOIN batch_line ON batch_id = kept.id
        WHERE external_account_number = :number
        UNION
        SELECT batch_id, line_number FROM kept JOIN batch_line AS line ON batch_id = kept.id
        WHERE line.meant_number = :number AND {_MEANS.format(":number")}
        UNION
        SELECT batch_id, line_number FROM kept JOIN batch_line ON batch_id = kept.id
        WHERE external_account_number IS NULL AND greatest(
            position(CAST(:plain AS bytea) IN payload), position(CAST(:escaped AS bytea) IN payload)) > 0)
    UPDATE batch_line AS line
    SET payload = NULL, understood = NULL, warnings = {_CODES_ONLY.format("warnings")},
        status = CASE WHEN line.status IN ({_OPEN}) THEN '{LineStatus.SKIPPED}' ELSE line.status END,
        errors = CASE WHEN line.status IN ({_OPEN}) THEN
            '[{{"detail": "Erased.", "code": "{errors.AccountMarkedToSkipError.code}", "attr": null}}]'
            ELSE {_CODES_ONLY.format("errors")} END
    FROM found
    WHERE line.batch_id = found.batch_id AND line.line_number = found.line_number
    RETURNING line.batch_id, line.line_number
""")

#: Lines of a batch that have just got their outcome and whose account was erased before: some lines, and all
#: that failed. The numbers are there twice, so that each line is read by its own, whatever the statistics say
#: of a batch that has just arrived.
_ERASE_OUTCOMES, _ERASE_FAILED = (
    text(f"""
        UPDATE batch_line AS line
        SET payload = NULL, understood = NULL, errors = {_CODES_ONLY.format("errors")},
            warnings = {_CODES_ONLY.format("warnings")}
        {chosen} line.batch_id = :batch_id
          AND EXISTS (
              SELECT FROM unnest(ARRAY[line.external_account_number, line.meant_number]) AS meant (number)
              WHERE {_MEANS.format("meant.number")}
                AND (EXISTS (SELECT FROM skip_mark
                             WHERE import_supplier_id = :import_supplier_id
                               AND external_account_number = meant.number AND erased_at IS NOT NULL OFFSET 0)
                     OR EXISTS (SELECT FROM account_import_process AS process
                                WHERE import_supplier_id = :import_supplier_id
                                  AND external_account_number = meant.number
                                  AND EXISTS (SELECT FROM account
                                              WHERE account_import_process_id = process.id
                                                AND erased_at IS NOT NULL OFFSET 0) OFFSET 0)))
    """).bindparams(*parameters)
    for chosen, parameters in (
        (
            "FROM unnest(:line_numbers) AS wanted (line_number)"
            " WHERE line.line_number = ANY (:line_numbers) AND line.line_number = wanted.line_number AND",
            [bindparam("line_numbers", type_=ARRAY(BigInteger))],
        ),
        (f"WHERE line.status = '{LineStatus.FAILED}' AND", []),
    )
)

_MARK_ERASED = text("""
    UPDATE skip_mark SET erased_at = coalesce(erased_at, now())
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: Accounts first staged while they were being erased, so that neither transaction saw the other.
_LOCK_STAGED_AGAIN = text(f"""
    SELECT process.id FROM skip_mark AS mark
    JOIN account_import_process AS process USING (import_supplier_id, external_account_number)
    WHERE mark.erased_at IS NOT NULL
      AND process.state IN ({literals([ImportState.PENDING, ImportState.SKIPPED])})
    LIMIT :limit FOR UPDATE OF process SKIP LOCKED
""")

#: A reason may contain anything. The acknowledgement, its author and its time are kept.
_ERASE_REASONS = text("""
    UPDATE acknowledgement SET reason = 'Erased.'
    WHERE import_supplier_id = :import_supplier_id AND (external_account_number = :number OR EXISTS (
        SELECT FROM unnest(CAST(:batch_ids AS uuid[]), CAST(:line_numbers AS bigint[])) AS it (batch_id, line)
        WHERE acknowledgement.external_account_number IS NULL
              AND it.batch_id = acknowledgement.batch_id AND it.line = acknowledgement.line_number))
""")

#: The hashes of a payload would confirm a correct guess.
_ERASE_PROCESS = text("""
    UPDATE account_import_process SET payload = NULL, warnings = NULL, payload_sha256 = '',
        content_hash = NULL, refused_at = NULL, refused_errors = NULL, refused_extracted_at = NULL,
        refused_batch_id = NULL, refused_line_number = NULL, refused_sent_at = NULL, refused_payload = NULL
    WHERE id = :process_id
""")

_ERASE_ATTEMPTS = text("""
    UPDATE attempt SET errors = NULL, error_detail = NULL WHERE account_import_process_id = :process_id
""")

#: Wait for the pieces of comparisons and certificates that read the account before, and start no further one.
_LOCK_COMPARISONS = text("""
    SELECT FROM comparison
    WHERE import_supplier_id = :import_supplier_id AND finished_at IS NULL FOR UPDATE
""")
_LOCK_CERTIFICATES = text("""
    SELECT FROM certificate
    WHERE import_supplier_id = :import_supplier_id AND finished_at IS NULL ORDER BY id FOR UPDATE
""")

#: What differed in the account when it was last compared, what the old system says of it, and the salt of its
#: hashes in certificates, whose leaf stays.
_ERASE_COMPARED = text("""
    WITH kept AS (SELECT id FROM comparison WHERE import_supplier_id = :import_supplier_id),
    figures AS (
        DELETE FROM old_figure
        WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number),
    figure_differences AS (
        DELETE FROM figure_difference USING kept
        WHERE comparison_id = kept.id AND external_account_number = :number),
    certified AS (
        UPDATE certificate_leaf SET entry = NULL FROM certificate
        WHERE certificate.import_supplier_id = :import_supplier_id AND certificate_id = certificate.id
          AND external_account_number = :number)
    DELETE FROM compared_account USING kept
    WHERE comparison_id = kept.id AND external_account_number = :number
""")

#: Remove processes without an account, with their attempts.
REMOVE_PROCESSES = text("""
    WITH attempts AS (DELETE FROM attempt WHERE account_import_process_id = ANY (:process_ids))
    DELETE FROM account_import_process WHERE id = ANY (:process_ids)
""")


def _schema_of(model: type[Base]) -> Schema:
    if model is Account:
        return ACCOUNT_IMPORT
    source = cast(type[Part], model).sources[0]
    return cast(Nested, _schema_of(source.parent).fields[source.key]).schema


def _is_erased(model: type[Base], column: Column[Any]) -> bool:
    """Return whether the field of a column's value, or of the document that it leads to, is erased."""
    schema: Any = _schema_of(model)
    *above, name = column.info.get("document") or path_of(column)
    for part in above:
        schema = schema.fields[part].schema
    field = schema.fields.get(name)
    return bool(getattr(getattr(field, "inner", field), "erased", False))


def _empty(model: type[Base]) -> TextClause | None:
    """Return the statement that empties the columns of a model's rows that are erased."""
    table = table_of(model)
    columns = [it.name for it in payload_columns(model) if _is_erased(model, it)]
    values = ", ".join(f"{name} = NULL" for name in columns)
    return text(f"UPDATE {table.name} SET {values} WHERE {rows_of_accounts()[table]}") if columns else None


@cache
def _erasing_statements() -> dict[str, TextClause]:
    """Return the statements that erase what is personal in accounts, by table and in order."""
    removed = statements_about_persons()
    models: list[type[Base]] = [Account, *Part.__subclasses__()]
    kept = [it for it in models if table_of(it).name not in removed]
    emptied = {table_of(it).name: _empty(it) for it in kept}
    return removed | {name: statement for name, statement in emptied.items() if statement is not None}


_MARK_ACCOUNT = text("UPDATE account SET erased_at = coalesce(erased_at, now()) WHERE id = :account_id")
