"""Taking back what a batch of added data has added: its rows are gone, and the balances are as before.

Each row says which batch it came from. The lines of the batch count as acknowledged, because their data is
knowingly not on the accounts.
"""

from collections.abc import Sequence

from sqlalchemy import ARRAY, BigInteger, bindparam, text
from sqlalchemy.orm import Session

from migration_service import states
from migration_service.errors import AlreadyAddedError
from migration_service.models import Batch, Undo

#: Whether a transaction of the batch was settled since: by a later statement of its number or period, or by
#: the settlement of a version that has replaced the account. Or whether a transaction or statement came with
#: that version, so that it is in its balance and no longer of the batch.
SETTLED = f"""
    EXISTS (SELECT FROM "transaction" AS booking JOIN ledger ON ledger.id = booking.ledger_pk
            WHERE booking.account_pk = account.id AND booking.request_id = :trace
              AND (booking.transaction_date <= ledger.last_settlement_closing_date
                   OR EXISTS (SELECT FROM statement
                              WHERE statement.account_pk = account.id
                                AND statement.origin = '{states.StatementOrigin.ADDED}'
                                AND statement.created_at > booking.created_at
                                AND (statement.number = booking.associated_invoice_number
                                     OR booking.transaction_date BETWEEN statement.bill_period_from_date
                                        AND statement.bill_period_to_date))))
    OR EXISTS (SELECT FROM batch_line AS line
               CROSS JOIN LATERAL jsonb_array_elements(line.understood) WITH ORDINALITY AS sent (item, place)
               WHERE line.batch_id = :batch_id AND line.status = '{states.LineStatus.ADDED}'
                 AND line.external_account_number = account.external_account_number
                 AND NOT EXISTS (  -- it was there before the batch
                     SELECT FROM jsonb_array_elements(line.warnings) AS warning
                     WHERE warning ->> 'code' = '{AlreadyAddedError.code}'
                       AND split_part(warning ->> 'attr', '.', 2) = CAST(place - 1 AS text))
                 AND (EXISTS (SELECT FROM "transaction" AS own
                              WHERE own.account_pk = account.id
                                AND own.transaction_id = item ->> 'transaction_id'
                                AND own.period <> '{states.TransactionPeriod.ADDED}')
                      OR EXISTS (SELECT FROM statement AS own
                                 WHERE own.account_pk = account.id
                                   AND own.statement_id = item ->> 'statement_id'
                                   AND own.origin <> '{states.StatementOrigin.ADDED}')))
"""


def trace_of(batch: Batch | None) -> str | None:
    """Return what the rows have that a batch has added, or None without a batch."""
    return f"batch {batch.id}" if batch else None


def remove_added_data(session: Session, undo: Undo, batch: Batch, account_ids: Sequence[int]) -> None:
    """Remove what the batch has added to these accounts, which the caller has locked."""
    values = {"account_ids": list(account_ids), "trace": trace_of(batch)}
    for statement in _REMOVE:
        session.execute(statement.bindparams(_ACCOUNT_IDS), values)
    reason = {"reason": undo.reason, "by": undo.started_by or "undo"}
    session.execute(_ACKNOWLEDGE.bindparams(_ACCOUNT_IDS), values | reason | {"batch_id": batch.id})


_ACCOUNT_IDS = bindparam("account_ids", type_=ARRAY(BigInteger))
_OWN = "account_pk = ANY (:account_ids) AND request_id = :trace"
_BOOKED = f'SELECT id FROM "transaction" WHERE {_OWN}'

#: Removes the rows of the batch, with the notes that say that the date of a transaction was changed.
_REMOVE = [
    text(f"""
        UPDATE ledger SET ledger_balance = ledger_balance - booked.amount
        FROM (SELECT ledger_pk, sum(CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN amount ELSE -amount END)
                AS amount
              FROM "transaction" WHERE {_OWN} GROUP BY ledger_pk) AS booked
        WHERE ledger.id = booked.ledger_pk"""),
    text(f"DELETE FROM line_item WHERE transaction_pk IN ({_BOOKED})"),
    text(f"DELETE FROM tax_item WHERE transaction_pk IN ({_BOOKED})"),
    text(f'DELETE FROM "transaction" WHERE {_OWN}'),
    text(f"DELETE FROM note WHERE {_OWN}"),
    text(f"DELETE FROM statement WHERE {_OWN}"),
    text(f"DELETE FROM payment_instruction WHERE {_OWN}"),
]

_ACKNOWLEDGE = text(f"""
    INSERT INTO acknowledgement (import_supplier_id, batch_id, line_number, reason, acknowledged_by)
    SELECT account.import_supplier_id, line.batch_id, line.line_number, :reason, :by
    FROM account JOIN batch_line AS line
      ON line.batch_id = :batch_id AND line.external_account_number = account.external_account_number
    WHERE account.id = ANY (:account_ids) AND line.status = '{states.LineStatus.ADDED}'
    ORDER BY line.line_number
""")
