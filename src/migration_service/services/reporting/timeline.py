"""The events of one account besides its attempts: added data, e-mails and undos."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.states import StatementOrigin, TransactionPeriod, UndoOutcome

#: The largest number of events listed for an account.
MOST = 200


class EventKind(StrEnum):
    """The kinds of events."""

    NOTES = "notes"
    TRANSACTIONS = "transactions"
    STATEMENTS = "statements"
    PAYMENT_INSTRUCTIONS = "payment-instructions"
    EMAIL = "email"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of an account, or of several of its items at the same time."""

    at: datetime
    kind: EventKind
    items: int
    #: The state of an e-mail, or the outcome of an undo.
    state: str | None
    undo_id: UUID | None


def list_events(
    session: Session, process_id: int, account_id: int | None, *, was_undone: bool
) -> Sequence[Event]:
    """Return the added data, e-mails and undos of an account, newest first.

    `account_id` is None if the account does not exist now. The lines of undos have no index by account, so
    they are only read if `was_undone`.
    """
    values = {"process": process_id, "account": account_id, "was_undone": was_undone, "limit": MOST}
    rows = session.execute(_EVENTS, values)
    return [Event(row.at, EventKind(row.kind), row.items, row.state, row.undo_id) for row in rows]


_NONE = "NULL::text AS state, NULL::uuid AS undo_id"
_EVENTS = text(f"""
    SELECT added_at AS at, '{EventKind.NOTES}' AS kind, count(*) AS items, {_NONE} FROM note
    WHERE account_pk = :account AND added_at IS NOT NULL GROUP BY 1
    UNION ALL
    SELECT created_at, '{EventKind.TRANSACTIONS}', count(*), {_NONE} FROM "transaction"
    WHERE account_pk = :account AND period = '{TransactionPeriod.ADDED}' GROUP BY 1
    UNION ALL
    SELECT created_at, '{EventKind.STATEMENTS}', count(*), {_NONE} FROM statement
    WHERE account_pk = :account AND origin = '{StatementOrigin.ADDED}' GROUP BY 1
    UNION ALL
    SELECT created_at, '{EventKind.PAYMENT_INSTRUCTIONS}', count(*), {_NONE} FROM payment_instruction
    WHERE account_pk = :account GROUP BY 1
    UNION ALL
    SELECT coalesce(email.sent_at, email.created_at), '{EventKind.EMAIL}', 1, email.state, NULL
    FROM customer JOIN customer_email AS email ON email.customer_pk = customer.id
    WHERE customer.account_pk = :account
    UNION ALL
    SELECT line.finished_at, '{EventKind.UNDO}', 1, line.outcome, line.undo_id
    FROM undo_line AS line
    WHERE :was_undone AND line.account_import_process_id = :process AND line.finished_at IS NOT NULL
      AND line.outcome <> '{UndoOutcome.PENDING}'
    ORDER BY at DESC LIMIT :limit
""")
