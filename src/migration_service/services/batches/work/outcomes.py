"""Writing the outcomes of lines, with one statement for a chunk."""

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.errors import ErrorItem
from migration_service.schemas.json import encode_json, storable_text
from migration_service.services.batches.work.lines import LineResult


def write_outcomes(session: Session, batch_id: UUID, results: Sequence[LineResult]) -> None:
    """Store the outcomes of these lines."""
    rows = [
        {
            "line_number": result.line_number,
            "status": result.status,
            "external_account_number": storable_text(result.external_account_number),
            "service_account_number": result.service_account_number,
            "errors": _storable_items(result.errors),
            "warnings": _storable_items(result.warnings),
            "staging_result": result.staging_result,
        }
        for result in results
    ]
    session.execute(_WRITE_OUTCOMES, {"batch_id": batch_id, "results": encode_json(rows).decode()})


def _storable_items(items: Sequence[ErrorItem]) -> list[dict[str, str | None]] | None:
    # Otherwise the database would refuse the outcomes of the whole chunk because of one line.
    return [{name: storable_text(text) for name, text in item.to_dict().items()} for item in items] or None


_WRITE_OUTCOMES = text("""
    UPDATE batch_line SET status = result.status, external_account_number = result.external_account_number,
        service_account_number = result.service_account_number,
        errors = result.errors, warnings = result.warnings, staging_result = result.staging_result
    FROM jsonb_to_recordset(CAST(:results AS jsonb)) AS result (
        line_number bigint, status text, external_account_number text, service_account_number text,
        errors jsonb, warnings jsonb, staging_result text)
    WHERE batch_id = :batch_id AND batch_line.line_number = result.line_number
""")
