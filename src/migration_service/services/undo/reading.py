"""Reading undos: progress, lists, and the outcome of each account."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.schemas.json import encode_json
from migration_service.errors import UndoNotFoundError
from migration_service.formats import ResultFormat, write_csv
from migration_service.models import ImportSupplier, Undo
from migration_service.services.setup.suppliers import get_owned, list_owned
from migration_service.services.waves.reading import find_wave
from migration_service.states import UndoOutcome

PAGE = 10_000
_COLUMNS = ("batch_id", "state", "reason", "started_by", "created_at", "finished_at", "accounts")
_FIELDS = ("external_account_number", "service_account_number", "outcome", "reasons")


def get_undo(session: Session, undo_id: str, *, organisation_id: int | None) -> Undo:
    """Return the organisation's undo, or any undo if the organisation is None. Raise UndoNotFoundError."""
    return get_owned(session, Undo, undo_id, UndoNotFoundError, organisation_id)


def report_undo(session: Session, undo: Undo) -> dict[str, Any]:
    """Return an undo and its progress by the names of the interface.

    `counts` has the accounts by outcome, and `kept_counts` the kept ones by reason.
    """
    counts = dict.fromkeys(map(str, UndoOutcome), 0)
    kept: dict[str, int] = {}
    for kind, name, number in session.execute(_COUNTS, {"undo_id": undo.id}):
        (counts if kind == "outcome" else kept)[name] = number
    return _fields(session, undo) | {"counts": counts, "kept_counts": kept}


def list_undos(session: Session, **wanted: Any) -> list[dict[str, Any]]:
    """Return the undos that `list_owned` finds, without counts."""
    return [_fields(session, undo) for undo in list_owned(session, Undo, **wanted)]


def stream_outcomes(
    sessions: sessionmaker[Session],
    undo_id: UUID,
    result_format: ResultFormat,
    outcome: UndoOutcome | None = None,
) -> Iterator[bytes]:
    """Yield the outcome of each account, or of those with one outcome, in pieces.

    Each piece is read in a separate transaction. Accounts that no longer exist have no external number.
    """
    is_csv = result_format is ResultFormat.CSV
    if is_csv:
        yield write_csv([_FIELDS])
    after = 0
    while True:
        with sessions.begin() as session:
            values = {"undo_id": undo_id, "after": after, "outcome": outcome, "limit": PAGE}
            rows = session.execute(_PAGE_OF_LINES, values).all()
        if not rows:
            return
        after = rows[-1].position
        lines = [dict(zip(_FIELDS, row[1:], strict=True)) for row in rows]
        if is_csv:
            yield write_csv((line | {"reasons": " ".join(line["reasons"])}).values() for line in lines)
        else:
            yield b"".join(encode_json(line) + b"\n" for line in lines)


def _fields(session: Session, undo: Undo) -> dict[str, Any]:
    wave = find_wave(session, undo.batch_id)
    return {name: getattr(undo, name) for name in _COLUMNS} | {
        "undo_id": undo.id,
        "import_supplier": session.get_one(ImportSupplier, undo.import_supplier_id).code,
        "plan_id": wave.plan_id if wave else None,
        "wave_number": wave.number if wave else None,
        "overrides": list(undo.overrides),
    }


_COUNTS = text("""
    SELECT 'outcome' AS kind, outcome AS name, count(*) AS n FROM undo_line
    WHERE undo_id = :undo_id GROUP BY outcome
    UNION ALL
    SELECT 'reason', reason, count(*) FROM undo_line, unnest(reasons) AS reason
    WHERE undo_id = :undo_id GROUP BY reason
    ORDER BY kind, n DESC, name
""")

_PAGE_OF_LINES = text("""
    SELECT line.position, process.external_account_number, line.service_account_number, line.outcome,
           coalesce(line.reasons, '{}') AS reasons
    FROM undo_line AS line
    LEFT JOIN account_import_process AS process ON process.id = line.account_import_process_id
    WHERE line.undo_id = :undo_id AND line.position > :after
      AND (CAST(:outcome AS text) IS NULL OR line.outcome = :outcome)
    ORDER BY line.position LIMIT :limit
""")
