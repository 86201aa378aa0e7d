"""Lines of a file of accounts that have the account of another line."""

from itertools import groupby
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_payloads.normal_form import digest_line
from migration_payloads.schemas.json import encode_json
from migration_service.db.sql import OpenTransaction
from migration_service.errors import ConflictingLinesError, DuplicateLineError
from migration_service.services.accounts.erasure import erase_outcomes
from migration_service.services.batches.intake.options import BatchOrder
from migration_service.services.imports.newer_versions import RefusedVersion, note_refused
from migration_service.services.setup.suppliers import KnownSupplier
from migration_service.states import BatchMode, LineStatus

#: The number of lines in memory whose text is compared.
_PIECE = 20


def refuse_repeated(session: Session, supplier: KnownSupplier, batch_id: UUID, order: BatchOrder) -> None:
    """Refuse the lines of each account except the first one, and that one, too, if the others differ from it.

    If an account whose lines differ is staged or created, mark it: its newer version was refused.
    """
    values = {"batch_id": batch_id, "duplicate": _to_json(DuplicateLineError())}
    if session.scalar(_MARK_DUPLICATES, values) is None:
        return
    conflicting = _find_conflicting(session, batch_id)
    if conflicting:
        values |= {"conflicting": _to_json(ConflictingLinesError()), "numbers": list(conflicting)}
        session.execute(_MARK_CONFLICTING, values)
    erase_outcomes(session, supplier.id, batch_id)
    if not conflicting or order.mode not in (BatchMode.STAGE, BatchMode.IMPORT):
        return
    refused = [
        RefusedVersion(number, ConflictingLinesError().errors, line_number=line_number)
        for number, line_number in conflicting.items()
    ]
    connection = OpenTransaction.of(session)
    note_refused(connection, supplier.id, refused, extracted_at=order.extracted_at, batch_id=batch_id)


def _find_conflicting(session: Session, batch_id: UUID) -> dict[str, int]:
    """Return the accounts with lines that do not say the same, each with its first line."""
    conflicting: dict[str, int] = {}
    for number, lines in groupby(
        session.execute(_DIFFERENT, {"batch_id": batch_id}), key=lambda row: row.external_account_number
    ):
        first, *others = ((line.line_number, digest_line(line.payload or b"")) for line in lines)
        if any(digest != first[1] for _, digest in others):
            conflicting[number] = first[0]
    return conflicting


def _to_json(error: DuplicateLineError | ConflictingLinesError) -> str:
    return encode_json([item.to_dict() for item in error.errors]).decode()


# Arrays, because the planner has no statistics on the new lines and would join them row by row.
_MARK_DUPLICATES = text(f"""
    WITH marked AS (
        UPDATE batch_line SET status = '{LineStatus.FAILED}', errors = CAST(:duplicate AS jsonb)
        WHERE batch_id = :batch_id AND line_number = ANY (ARRAY(
            SELECT line_number FROM (
                SELECT line_number,
                       row_number() OVER (PARTITION BY external_account_number ORDER BY line_number) AS place
                FROM batch_line
                WHERE batch_id = :batch_id AND external_account_number IS NOT NULL) AS numbered
            WHERE place > 1))
        RETURNING line_number)
    SELECT line_number FROM marked LIMIT 1
""")

# Of accounts with several lines that are not the same bytes.
_DIFFERENT = text("""
    SELECT external_account_number, line_number, payload FROM batch_line
    WHERE batch_id = :batch_id AND external_account_number = ANY (ARRAY(
        SELECT external_account_number FROM (
            SELECT external_account_number,
                   CASE WHEN count(*) OVER (PARTITION BY external_account_number) > 1
                        THEN sha256(payload) END AS digest
            FROM batch_line
            WHERE batch_id = :batch_id AND external_account_number IS NOT NULL) AS repeated
        WHERE digest IS NOT NULL
        GROUP BY external_account_number HAVING count(DISTINCT digest) > 1))
    ORDER BY external_account_number, line_number
""").execution_options(stream_results=True, max_row_buffer=_PIECE)

_MARK_CONFLICTING = text(f"""
    UPDATE batch_line SET status = '{LineStatus.FAILED}',
        errors = CAST(:conflicting AS jsonb)
                 || CASE status WHEN '{LineStatus.FAILED}' THEN CAST(:duplicate AS jsonb) ELSE '[]' END
    WHERE batch_id = :batch_id AND external_account_number = ANY (:numbers)
""")
