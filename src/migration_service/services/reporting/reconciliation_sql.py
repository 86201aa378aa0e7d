"""The statements behind `services.reporting.reconciliation`."""

from sqlalchemy import ARRAY, BigInteger, bindparam, text

from migration_service.errors import DuplicateLineError
from migration_service.states import ImportState, StatementOrigin, TransactionPeriod

#: One page of the processes whose account was created; `place` is where the next page starts.
LIST_PAGE = text(f"""
    SELECT process.id, process.external_account_number, process.service_account_number,
           process.state = '{ImportState.IMPORTED}' AS is_imported,
           process.payload IS NOT NULL AS has_payload,
           account.id IS NOT NULL AS has_account, process.external_account_number AS place
    FROM account_import_process AS process
    LEFT JOIN account ON account.account_import_process_id = process.id
    WHERE process.import_supplier_id = :import_supplier_id AND process.external_account_number > :after
      AND (process.state = '{ImportState.IMPORTED}' OR account.id IS NOT NULL)
    ORDER BY process.external_account_number LIMIT :limit
""")

#: The same of one account.
LIST_ACCOUNT = text(f"""
    SELECT process.id, process.state = '{ImportState.IMPORTED}' AS is_imported,
           process.payload IS NOT NULL AS has_payload, account.id IS NOT NULL AS has_account
    FROM account_import_process AS process
    LEFT JOIN account ON account.account_import_process_id = process.id
    WHERE process.id = :process_id
""")

#: The same of the accounts on the lines of a batch. An account that is on two lines counts on the first.
LIST_PAGE_OF_BATCH = text(f"""
    SELECT process.id, process.external_account_number, process.service_account_number,
           process.state = '{ImportState.IMPORTED}' AS is_imported,
           process.payload IS NOT NULL AS has_payload,
           account.id IS NOT NULL AS has_account, line.line_number AS place
    FROM batch_line AS line
    JOIN account_import_process AS process
      ON process.import_supplier_id = :import_supplier_id
     AND process.external_account_number = line.external_account_number
    LEFT JOIN account ON account.account_import_process_id = process.id
    WHERE line.batch_id = :batch_id AND line.line_number > :after
      AND (process.state = '{ImportState.IMPORTED}' OR account.id IS NOT NULL)
      AND (line.errors IS NULL OR NOT line.errors @> '[{{"code": "{DuplicateLineError.code}"}}]')
    ORDER BY line.line_number LIMIT :limit
""")

#: For each measure: its staged and its created sum over some processes, and the processes that differ, as
#: [id, staged, created] in texts, so that no amount becomes a float on its way.
COMPARE = text(f"""
    WITH page AS MATERIALIZED (
        SELECT process.id, process.payload, account.id AS account_id
        FROM account_import_process AS process
        JOIN account ON account.account_import_process_id = process.id
        WHERE process.id = ANY (:process_ids)
    ), staged_ledger AS MATERIALIZED (
        SELECT id, ledger FROM page, jsonb_array_elements(payload -> 'ledgers') AS ledger
    ), staged_transaction AS MATERIALIZED (
        SELECT id, entry ->> 'type' AS type, CAST(entry ->> 'amount' AS numeric) AS amount
        FROM staged_ledger, jsonb_array_elements(
            coalesce(ledger -> 'transactions_in_open_settlement_period', '[]')
            || coalesce(ledger -> 'historical_statement_transactions', '[]')) AS entry
    ), created_transaction AS MATERIALIZED (
        SELECT page.id, period, type, amount,
               CASE WHEN type IN ('PAYMENT', 'CREDIT') THEN amount ELSE -amount END AS signed_amount
        FROM page JOIN "transaction" ON account_pk = account_id
    ), created_meter_point AS MATERIALIZED (
        SELECT page.id, meter_point.id AS meter_point_id
        FROM page JOIN supply_address ON account_pk = account_id
        JOIN meter_point ON supply_address_pk = supply_address.id
    ), value (id, measure, staged, created) AS (
        SELECT id, 'customers', jsonb_array_length(coalesce(payload -> 'customers', '[]')), 0 FROM page
        UNION ALL SELECT page.id, 'customers', 0, 1 FROM page JOIN customer ON account_pk = account_id
        UNION ALL
        SELECT id, 'meter_points', jsonb_array_length(
            jsonb_path_query_array(payload, '$.supply_addresses[*].meter_points[*]')), 0 FROM page
        UNION ALL SELECT id, 'meter_points', 0, 1 FROM created_meter_point
        UNION ALL
        SELECT id, 'agreements', jsonb_array_length(
            jsonb_path_query_array(payload, '$.supply_addresses[*].meter_points[*].agreements[*]')), 0
        FROM page
        UNION ALL
        SELECT created_meter_point.id, 'agreements', 0, 1
        FROM created_meter_point JOIN agreement ON agreement.meter_point_pk = meter_point_id
        UNION ALL
        SELECT id, 'statements', jsonb_array_length(coalesce(payload -> 'statements', '[]')), 0 FROM page
        UNION ALL
        SELECT page.id, 'statements', 0, 1 FROM page JOIN statement
          ON account_pk = account_id AND origin <> '{StatementOrigin.ADDED}'
        UNION ALL SELECT id, 'transactions', 1, 0 FROM staged_transaction
        UNION ALL SELECT id, 'transactions', 0, 1 FROM created_transaction
        WHERE period <> '{TransactionPeriod.ADDED}'
        UNION ALL SELECT id, 'amount of ' || type, amount, 0 FROM staged_transaction
        UNION ALL SELECT id, 'amount of ' || type, 0, amount FROM created_transaction
        WHERE period <> '{TransactionPeriod.ADDED}'
        UNION ALL
        SELECT id, 'ledger_balances', CAST(ledger ->> 'ledger_balance' AS numeric), 0 FROM staged_ledger
        UNION ALL
        SELECT page.id, 'ledger_balances', 0, ledger_balance
        FROM page JOIN ledger ON ledger.account_pk = account_id
        UNION ALL
        SELECT id, 'ledger_balances', 0, -signed_amount FROM created_transaction
        WHERE period = '{TransactionPeriod.ADDED}'
    ), account_value AS MATERIALIZED (
        SELECT id, measure, sum(staged) AS staged, sum(created) AS created FROM value GROUP BY id, measure
    )
    SELECT measure, sum(staged) AS staged, sum(created) AS created,
           jsonb_agg(jsonb_build_array(CAST(id AS text), CAST(staged AS text), CAST(created AS text)))
               FILTER (WHERE staged <> created) AS differing
    FROM account_value GROUP BY measure ORDER BY measure
""").bindparams(bindparam("process_ids", type_=ARRAY(BigInteger)))

#: One page of the numbers of created accounts.
ID_MAP = text(f"""
    SELECT external_account_number, service_account_number, account_created_at
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number > :after
      AND state = '{ImportState.IMPORTED}'
    ORDER BY external_account_number LIMIT :limit
""")
