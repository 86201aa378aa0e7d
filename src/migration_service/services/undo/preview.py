"""The preview of an undo: the number of accounts, and the blockers of each."""

from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.services.undo import blockers_sql
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.waves.reading import find_wave
from migration_service.states import EmailState, UndoBlocker

#: The number of accounts named for each blocker.
EXAMPLES = 5
_UNSENT = literals((EmailState.HELD, EmailState.PENDING))
_NUMBERS = ("accounts", "revertible", "revertible_with_overrides", "emails")


def preview_undo(session: Session, order: UndoOrder) -> dict[str, Any]:
    """Return the effect that an undo of these accounts would have now, by the names of the interface.

    An account may have several blockers. `gone` are lines or numbers whose account does not exist any more.
    Nothing is changed.
    """
    allow_minutes(session)
    wave = find_wave(session, order.batch.id if order.batch else None)
    of_batch = _OF_ADDED if order.adds_data else _OF_BATCH
    found = session.execute(of_batch if order.batch else _OF_NUMBERS, order.values()).one()
    return {
        "import_supplier": order.supplier.code,
        "batch_id": order.batch.id if order.batch else None,
        "plan_id": wave.plan_id if wave else None,
        "wave_number": wave.number if wave else None,
        **{name: getattr(found, name) for name in _NUMBERS},
        "gone": found.wanted - found.accounts,
        "blockers": [
            {**it, "may_be_overridden": UndoBlocker(it["code"]).may_be_overridden} for it in found.blockers
        ],
    }


def _preview(wanted: str, counted: str, *, added: bool = False) -> TextClause:
    return text(f"""
        WITH judged AS MATERIALIZED ({blockers_sql.judge(wanted, added=added)}),
        blocker AS (
            SELECT code, count(*) AS accounts FROM judged, unnest(blockers) AS code GROUP BY code)
        SELECT count(*) AS accounts, count(*) FILTER (WHERE blockers = '{{}}') AS revertible,
               count(*) FILTER (WHERE blockers <@ ARRAY[{blockers_sql.MAY_BE_OVERRIDDEN}])
                   AS revertible_with_overrides,
               (SELECT count(*) FROM judged
                JOIN customer ON customer.account_pk = judged.account_id
                JOIN customer_email ON customer_email.customer_pk = customer.id
                WHERE NOT {added} AND blockers = '{{}}' AND customer_email.state IN ({_UNSENT})) AS emails,
               ({counted}) AS wanted,
               (SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'code', code, 'accounts', blocker.accounts, 'examples', ARRAY(
                        SELECT external_account_number FROM judged
                        WHERE blocker.code = ANY (blockers) ORDER BY 1 LIMIT {EXAMPLES}))
                    ORDER BY blocker.accounts DESC, code), '[]')
                FROM blocker) AS blockers
        FROM judged""")


_LINES = f"""
    SELECT count(DISTINCT external_account_number) FROM batch_line
    WHERE batch_id = :batch_id AND status IN ({literals(blockers_sql.CREATED)})"""
_OF_BATCH, _OF_ADDED = (
    _preview(blockers_sql.OF_BATCH, _LINES),
    _preview(blockers_sql.OF_BATCH, _LINES, added=True),
)
_OF_NUMBERS = _preview(
    blockers_sql.OF_NUMBERS, "SELECT count(DISTINCT number) FROM unnest(CAST(:numbers AS text[])) AS number"
)
