"""The SQL for the accounts of an undo, and for the blockers that prevent reverting them."""

from migration_service import states
from migration_service.db.base import literals
from migration_service.services.setup.suppliers import IS_NEW, SUPPLIER_IS_LIVE
from migration_service.services.undo.added_data import SETTLED

#: The outcomes of lines that created their account, or added something to it.
CREATED = (states.LineStatus.IMPORTED, states.LineStatus.REPLACED, states.LineStatus.ADDED)

#: The accounts that a batch has created, or added to, and that have not been recreated since.
CREATED_BY_BATCH = f"""
    FROM batch_line AS line
    JOIN account_import_process AS process
      ON process.import_supplier_id = :import_supplier_id
     AND process.external_account_number = line.external_account_number
     AND process.service_account_number = line.service_account_number
    WHERE line.batch_id = :batch_id AND line.status IN ({literals(CREATED)})
      AND NOT (line.status = '{states.LineStatus.ADDED}' AND EXISTS (  -- taken back already
          SELECT FROM acknowledgement
          WHERE acknowledgement.import_supplier_id = process.import_supplier_id
            AND acknowledgement.external_account_number IS NULL
            AND acknowledgement.batch_id = line.batch_id
            AND acknowledgement.line_number = line.line_number))
"""
OF_BATCH = f"""
    SELECT row_number() OVER (ORDER BY min(line.line_number)) AS position, process.id AS process_id,
           line.service_account_number
    {CREATED_BY_BATCH} GROUP BY process.id, line.service_account_number
"""

#: The created accounts with these numbers.
OF_NUMBERS = f"""
    SELECT row_number() OVER (ORDER BY named.position) AS position, process.id AS process_id,
           process.service_account_number
    FROM (SELECT number, min(position) AS position
          FROM unnest(CAST(:numbers AS text[])) WITH ORDINALITY AS sent (number, position)
          GROUP BY number) AS named
    JOIN account_import_process AS process
      ON process.import_supplier_id = :import_supplier_id
     AND process.external_account_number = named.number
    WHERE process.state = '{states.ImportState.IMPORTED}'
"""

# A message with a Message-ID that has neither ended nor failed may have reached the mail server.
_MAY_HAVE_GOT_EMAIL = f"""
    EXISTS (SELECT FROM customer_email
            WHERE customer_pk = ANY (ARRAY(SELECT id FROM customer WHERE account_pk = account.id))
              AND (customer_email.state = '{states.EmailState.SENT}'
                   OR (customer_email.state = '{states.EmailState.PENDING}' AND message_id IS NOT NULL
                       AND failures = 0)))
"""

# With OFFSET, the planner cannot read the whole table instead, once for all accounts.
_HAS_ADDED_DATA = f"""
    EXISTS (SELECT FROM note WHERE note.account_pk = account.id OFFSET 0)
    OR EXISTS (SELECT FROM "transaction" AS booking
               WHERE booking.account_pk = account.id AND period = '{states.TransactionPeriod.ADDED}' OFFSET 0)
    OR EXISTS (SELECT FROM statement
               WHERE statement.account_pk = account.id AND origin = '{states.StatementOrigin.ADDED}' OFFSET 0)
"""

_CONDITIONS = {
    states.UndoBlocker.SUPPLIER_LIVE: SUPPLIER_IS_LIVE,
    states.UndoBlocker.ACCOUNT_LIVE: f"{IS_NEW} AND NOT {SUPPLIER_IS_LIVE}",
    states.UndoBlocker.ERASED: "account.erased_at IS NOT NULL",
    states.UndoBlocker.PAYLOAD_REMOVED: "process.payload IS NULL AND account.erased_at IS NULL",
    states.UndoBlocker.EMAIL_SENT: _MAY_HAVE_GOT_EMAIL,
    states.UndoBlocker.INSTRUCTION_CONFIRMED: """
        EXISTS (SELECT FROM payment_instruction WHERE payment_instruction.account_pk = account.id OFFSET 0)
    """,
    states.UndoBlocker.DATA_ADDED: _HAS_ADDED_DATA,
}
#: The same for what a batch has added to accounts.
_OF_ADDED = (states.UndoBlocker.SUPPLIER_LIVE, states.UndoBlocker.ACCOUNT_LIVE, states.UndoBlocker.ERASED)
_ADDED_CONDITIONS = {code: _CONDITIONS[code] for code in _OF_ADDED} | {states.UndoBlocker.SETTLED: SETTLED}


def judge(wanted: str, *, added: bool = False) -> str:
    """Return the statement for the blockers of each account of `wanted`, a statement like OF_BATCH.

    With `added` only what the batch of `:trace` has added is undone. A removed process has a row without a
    number.
    """
    conditions = _ADDED_CONDITIONS if added else _CONDITIONS
    blockers = ", ".join(f"CASE WHEN {condition} THEN '{code}' END" for code, condition in conditions.items())
    return f"""
        SELECT wanted.position, process.id AS process_id, process.external_account_number,
               account.id AS account_id,
               CASE WHEN account.service_account_number IS DISTINCT FROM wanted.service_account_number
                    THEN ARRAY['{states.UndoBlocker.NOT_IMPORTED}']
                    ELSE array_remove(ARRAY[{blockers}], NULL) END AS blockers
        FROM ({wanted}) AS wanted
        LEFT JOIN account_import_process AS process ON process.id = wanted.process_id
        LEFT JOIN import_supplier AS supplier ON supplier.id = process.import_supplier_id
        LEFT JOIN account ON account.account_import_process_id = process.id
    """


#: Blockers that an administrator can override, as SQL literals.
MAY_BE_OVERRIDDEN = literals(blocker for blocker in states.UndoBlocker if blocker.may_be_overridden)
