"""The preview of an undo: the number of accounts, and the blockers of each."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.services.undo.blockers_sql import (
    CREATED,
    MAY_BE_OVERRIDDEN,
    OF_BATCH,
    OF_NUMBERS,
    judge,
)
from migration_service.services.undo.orders import UndoOrder
from migration_service.services.waves.reading import find_wave
from migration_service.states import EmailState, UndoBlocker

#: The number of accounts named for each blocker.
EXAMPLES = 5
_UNSENT = literals((EmailState.HELD, EmailState.PENDING))
_NUMBERS = ("accounts", "revertible", "revertible_with_overrides", "emails")


@dataclass(frozen=True, slots=True)
class FoundBlocker:
    """A blocker, and the number of accounts that it keeps."""

    code: UndoBlocker
    may_be_overridden: bool
    accounts: int
    #: The external account numbers of some of them.
    examples: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPreview:
    """The effect of an undo. An account may have several blockers."""

    import_supplier: str
    batch_id: UUID | None
    plan_id: UUID | None
    wave_number: int | None
    #: The accounts of the undo that exist, and have not been recreated since the batch.
    accounts: int
    #: Accounts that would be reverted now, and if every possible blocker were overridden.
    revertible: int
    revertible_with_overrides: int
    #: Unsent e-mails of revertible accounts, and lines or numbers whose account does not exist any more.
    emails: int
    gone: int
    blockers: list[FoundBlocker]


def preview_undo(session: Session, order: UndoOrder) -> UndoPreview:
    """Return the effect that an undo of these accounts would have now. Nothing is changed."""
    allow_minutes(session)
    wave = find_wave(session, order.batch.id if order.batch else None)
    of_batch = _OF_ADDED if order.adds_data else _OF_BATCH
    found = session.execute(of_batch if order.batch else _OF_NUMBERS, order.values()).one()
    return UndoPreview(
        import_supplier=order.supplier.code,
        batch_id=order.batch.id if order.batch else None,
        plan_id=wave.plan_id if wave else None,
        wave_number=wave.number if wave else None,
        **{name: getattr(found, name) for name in _NUMBERS},
        gone=found.wanted - found.accounts,
        blockers=[
            FoundBlocker(code, code.may_be_overridden, item["accounts"], item["examples"])
            for item in found.blockers
            for code in (UndoBlocker(item["code"]),)
        ],
    )


def _preview(wanted: str, counted: str, *, added: bool = False) -> TextClause:
    return text(f"""
        WITH judged AS MATERIALIZED ({judge(wanted, added=added)}),
        blocker AS (
            SELECT code, count(*) AS accounts FROM judged, unnest(blockers) AS code GROUP BY code)
        SELECT count(*) AS accounts, count(*) FILTER (WHERE blockers = '{{}}') AS revertible,
               count(*) FILTER (WHERE blockers <@ ARRAY[{MAY_BE_OVERRIDDEN}]) AS revertible_with_overrides,
               (SELECT count(*) FROM judged
                JOIN customer ON customer.account_pk = judged.account_id
                JOIN customer_email ON customer_email.customer_pk = customer.id
                WHERE NOT {added} AND blockers = '{{}}' AND customer_email.state IN ({_UNSENT})) AS emails,
               ({counted}) AS wanted,
               (SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'code', code, 'accounts', blocker.accounts, 'examples', ARRAY(
                        SELECT external_account_number FROM judged
                        WHERE blocker.code = ANY (blockers) LIMIT {EXAMPLES}))
                    ORDER BY blocker.accounts DESC, code), '[]')
                FROM blocker) AS blockers
        FROM judged""")


_LINES = f"""
    SELECT count(DISTINCT external_account_number) FROM batch_line
    WHERE batch_id = :batch_id AND status IN ({literals(CREATED)})"""
_OF_BATCH, _OF_ADDED = _preview(OF_BATCH, _LINES), _preview(OF_BATCH, _LINES, added=True)
_OF_NUMBERS = _preview(
    OF_NUMBERS, "SELECT count(DISTINCT number) FROM unnest(CAST(:numbers AS text[])) AS number"
)
