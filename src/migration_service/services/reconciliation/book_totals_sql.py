"""The SQL statements of `services.reconciliation.book_totals`."""

from sqlalchemy import Uuid, bindparam, text

from migration_service.errors import DuplicateLineError
from migration_service.states import (
    BatchKind,
    BatchSource,
    ImportState,
    StatementOrigin,
    TransactionPeriod,
)

_BATCH_ID = bindparam("batch_id", type_=Uuid)

#: The staged, skipped and created values by measure. Added transactions and statements are left out, and
#: their effect on the balances is subtracted.
COUNT_BOOK = text(f"""
    WITH process AS MATERIALIZED (
        SELECT process.id, account.id AS account_id,
               CASE WHEN account.id IS NOT NULL THEN 'created'
                    WHEN process.state = '{ImportState.SKIPPED}' THEN 'skipped' ELSE 'staged' END AS outcome
        FROM account_import_process AS process
        LEFT JOIN account ON account.account_import_process_id = process.id
        WHERE process.import_supplier_id = :import_supplier_id
          AND (:batch_id IS NULL OR process.external_account_number IN (
              SELECT external_account_number FROM batch_line WHERE batch_id = :batch_id))
    ), staged AS (
        SELECT outcome, payload FROM process JOIN account_import_process USING (id) WHERE account_id IS NULL
    ), staged_ledger AS (
        SELECT outcome, ledger FROM staged, jsonb_array_elements(payload -> 'ledgers') AS ledger
    ), value (outcome, measure, value) AS (
        SELECT outcome, 'accounts', count(*) FROM process GROUP BY outcome
        UNION ALL
        SELECT outcome, 'statements', sum(jsonb_array_length(coalesce(payload -> 'statements', '[]')))
        FROM staged GROUP BY outcome
        UNION ALL
        SELECT outcome, 'balance of ' || (ledger ->> 'ledger_code'),
               sum(CAST(ledger ->> 'ledger_balance' AS numeric))
        FROM staged_ledger GROUP BY 1, 2
        UNION ALL
        SELECT outcome, measure || (entry ->> 'type'),
               CASE measure WHEN 'number of ' THEN count(*)
                    ELSE sum(CAST(entry ->> 'amount' AS numeric)) END
        FROM staged_ledger, jsonb_array_elements(
            coalesce(ledger -> 'transactions_in_open_settlement_period', '[]')
            || coalesce(ledger -> 'historical_statement_transactions', '[]')) AS entry,
            (VALUES ('number of '), ('amount of ')) AS kind (measure)
        GROUP BY outcome, measure, entry ->> 'type'
        UNION ALL
        SELECT 'created', 'statements', count(*) FROM process JOIN statement ON account_pk = account_id
        WHERE origin <> '{StatementOrigin.ADDED}'
        UNION ALL
        SELECT 'created', 'balance of ' || ledger_code, sum(ledger_balance)
        FROM process JOIN ledger ON ledger.account_pk = account_id GROUP BY ledger_code
        UNION ALL
        SELECT 'created', 'balance of ' || ledger_code,
               sum(CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN -amount ELSE amount END)
        FROM process JOIN ledger ON ledger.account_pk = account_id
        JOIN "transaction" ON ledger_pk = ledger.id AND period = '{TransactionPeriod.ADDED}'
        GROUP BY ledger_code
        UNION ALL
        SELECT 'created', measure || type,
               CASE measure WHEN 'number of ' THEN count(*) ELSE sum(amount) END
        FROM process JOIN "transaction" ON account_pk = account_id,
            (VALUES ('number of '), ('amount of ')) AS kind (measure)
        WHERE period <> '{TransactionPeriod.ADDED}' GROUP BY measure, type
    )
    SELECT outcome, measure, sum(value) AS value FROM value WHERE value IS NOT NULL GROUP BY outcome, measure
""").bindparams(_BATCH_ID)

#: The lines of a batch that repeat the account of an earlier line, as sent.
LIST_REPEATED = text(f"""
    SELECT payload FROM batch_line
    WHERE batch_id = :batch_id AND errors @> '[{{"code": "{DuplicateLineError.code}"}}]'
    ORDER BY line_number
""").bindparams(_BATCH_ID)

#: The newest files of accounts of a supplier, or the file of one batch.
LIST_FILES = text(f"""
    SELECT id FROM batch
    WHERE import_supplier_id = :import_supplier_id AND kind = '{BatchKind.ACCOUNTS}'
      AND source = '{BatchSource.UPLOAD}' AND (:batch_id IS NULL OR id = :batch_id)
    ORDER BY id DESC LIMIT :limit
""").bindparams(_BATCH_ID)
