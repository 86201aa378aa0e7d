"""The events of one account besides its attempts: added data, e-mails and undos."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import BatchKind, StatementOrigin, TransactionPeriod, UndoOutcome

#: The largest number of events listed for an account.
MOST = 200


def list_events(
    session: Session, process_id: int, account_id: int | None, *, was_undone: bool
) -> Sequence[Any]:
    """Return the added data, e-mails and undos of an account, newest first.

    Each has its time, its kind, how many items it is about, and an e-mail its state, or an undo its outcome
    and its id. `account_id` is None if the account does not exist now. The lines of undos have no index by
    account, so they are only read if `was_undone`.
    """
    values = {"process": process_id, "account": account_id, "was_undone": was_undone, "limit": MOST}
    return session.execute(_EVENTS, values).all()


_NONE = "NULL::text AS state, NULL::uuid AS undo_id"
_EVENTS = text(f"""
    SELECT added_at AS at, '{BatchKind.NOTES}' AS kind, count(*) AS items, {_NONE} FROM note
    WHERE account_pk = :account AND added_at IS NOT NULL GROUP BY 1
    UNION ALL
    SELECT created_at, '{BatchKind.TRANSACTIONS}', count(*), {_NONE} FROM "transaction"
    WHERE account_pk = :account AND period = '{TransactionPeriod.ADDED}' GROUP BY 1
    UNION ALL
    SELECT created_at, '{BatchKind.STATEMENTS}', count(*), {_NONE} FROM statement
    WHERE account_pk = :account AND origin = '{StatementOrigin.ADDED}' GROUP BY 1
    UNION ALL
    SELECT created_at, '{BatchKind.PAYMENT_INSTRUCTIONS}', count(*), {_NONE} FROM payment_instruction
    WHERE account_pk = :account GROUP BY 1
    UNION ALL
    SELECT coalesce(email.sent_at, email.created_at), 'email', 1, email.state, NULL
    FROM customer JOIN customer_email AS email ON email.customer_pk = customer.id
    WHERE customer.account_pk = :account
    UNION ALL
    SELECT line.finished_at, 'undo', 1, line.outcome, line.undo_id
    FROM undo_line AS line
    WHERE :was_undone AND line.account_import_process_id = :process AND line.finished_at IS NOT NULL
      AND line.outcome <> '{UndoOutcome.PENDING}'
    ORDER BY at DESC LIMIT :limit
""")
