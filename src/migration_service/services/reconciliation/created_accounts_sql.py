"""The SQL statements of `services.reconciliation.created_accounts`."""

from sqlalchemy import ARRAY, BigInteger, bindparam, text

from migration_payloads.schemas.json import encode_json
from migration_service.errors import DuplicateLineError
from migration_service.models import Ledger
from migration_service.services.reconciliation.created_sql import created_account
from migration_service.states import ImportState

# The payload. Without a ledger, the account gets an empty one. The number is that of the process, and is
# present only if the account has a different one.
_STAGED = """
    CASE WHEN coalesce(process.payload -> 'ledgers', '[]') <> '[]'
              AND process.service_account_number = account.service_account_number THEN process.payload
         ELSE process.payload
              || CASE WHEN coalesce(process.payload -> 'ledgers', '[]') = '[]'
                      THEN CAST(:without_ledgers AS jsonb) ELSE '{}' END
              || CASE WHEN process.service_account_number IS DISTINCT FROM account.service_account_number
                      THEN jsonb_build_object('service_account_number', process.service_account_number)
                      ELSE '{}' END END"""

#: One page of the processes whose account was created. `place` is the start of the next page.
LIST_PAGE = text(f"""
    SELECT process.id, process.external_account_number, process.service_account_number,
           process.state = '{ImportState.IMPORTED}' AS is_imported,
           pg_column_size(process.payload) AS size,
           account.id IS NOT NULL AS has_account, process.external_account_number AS place
    FROM account_import_process AS process
    LEFT JOIN account ON account.account_import_process_id = process.id
    WHERE process.import_supplier_id = :import_supplier_id AND process.external_account_number > :after
      AND (process.state = '{ImportState.IMPORTED}' OR account.id IS NOT NULL)
    ORDER BY process.external_account_number LIMIT :limit
""")

#: The same for one account.
LIST_ACCOUNT = text(f"""
    SELECT process.id, process.external_account_number, process.service_account_number,
           process.state = '{ImportState.IMPORTED}' AS is_imported,
           pg_column_size(process.payload) AS size, account.id IS NOT NULL AS has_account
    FROM account_import_process AS process
    LEFT JOIN account ON account.account_import_process_id = process.id
    WHERE process.id = :process_id AND (process.state = '{ImportState.IMPORTED}' OR account.id IS NOT NULL)
""")

#: The same for the accounts on the lines of a batch. An account on two lines counts on the first.
LIST_PAGE_OF_BATCH = text(f"""
    SELECT process.id, process.external_account_number, process.service_account_number,
           process.state = '{ImportState.IMPORTED}' AS is_imported,
           pg_column_size(process.payload) AS size,
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

#: Compares the payloads of some processes with their accounts, value by value. Returns two kinds of rows: the
#: staged and created sums of each measure, for each unequal account and for all equal accounts together
#: (without an id), and both sides of each unequal account as JSON (without a measure). All values are text,
#: so that no amount is converted to a float. The staged side is the payload, and the created side is built
#: from rows. Equal values are added up only once.
COMPARE = text(f"""
    WITH compared AS MATERIALIZED (
        SELECT id, staged, is_same, CASE WHEN NOT is_same THEN created END AS created
        FROM (SELECT process.id, jsonb_strip_nulls({_STAGED}) AS staged,
                     jsonb_strip_nulls(CAST({created_account()} AS jsonb)) AS created
              FROM account_import_process AS process
              JOIN account ON account.account_import_process_id = process.id
              JOIN (SELECT id, code, coalesce(nullif(document_root, '') || '/', '') AS document_root
                    FROM import_supplier) AS supplier ON supplier.id = account.import_supplier_id
              WHERE process.id = ANY (:process_ids)
              OFFSET 0) AS side  -- so that both are made once
        CROSS JOIN LATERAL (SELECT staged = created AS is_same OFFSET 0) AS found
    ), document (id, document, is_staged, is_created) AS (
        SELECT CASE WHEN NOT is_same THEN id END, staged, true, is_same FROM compared
        UNION ALL SELECT id, created, false, true FROM compared WHERE NOT is_same
    )
    SELECT id, measure, CAST(coalesce(sum(value) FILTER (WHERE is_staged), 0) AS text) AS staged,
           CAST(coalesce(sum(value) FILTER (WHERE is_created), 0) AS text) AS created
    FROM document, LATERAL (
        SELECT 'customers', CAST(jsonb_array_length(coalesce(document -> 'customers', '[]')) AS numeric)
        UNION ALL SELECT 'meter_points', jsonb_array_length(jsonb_path_query_array(
            document, '$.supply_addresses[*].meter_points[*]'))
        UNION ALL SELECT 'agreements', jsonb_array_length(jsonb_path_query_array(
            document, '$.supply_addresses[*].meter_points[*].agreements[*]'))
        UNION ALL SELECT 'statements', jsonb_array_length(coalesce(document -> 'statements', '[]'))
        UNION ALL SELECT 'ledger_balances', CAST(balance #>> '{{}}' AS numeric)
        FROM jsonb_path_query(document, '$.ledgers[*].ledger_balance') AS balance
        UNION ALL SELECT measured.*
        FROM (SELECT jsonb_path_query(document, '$.ledgers[*].transactions_in_open_settlement_period[*]')
              UNION ALL
              SELECT jsonb_path_query(document, '$.ledgers[*].historical_statement_transactions[*]')
        ) AS found (entry), LATERAL (VALUES
            ('transactions', 1), ('amount of ' || (entry ->> 'type'), CAST(entry ->> 'amount' AS numeric))
        ) AS measured
    ) AS measured (measure, value)
    GROUP BY id, measure
    UNION ALL
    SELECT id, NULL, CAST(staged AS text), CAST(created AS text) FROM compared WHERE NOT is_same
    ORDER BY id NULLS FIRST, measure
""").bindparams(
    bindparam("process_ids", type_=ARRAY(BigInteger)),
    without_ledgers=encode_json({Ledger.sources[0].key: Ledger.sources[0].default}).decode(),
)

#: Settings for the transaction of COMPARE. It is planned each time, because a plan made while the tables were
#: small would read whole tables for each account. Both sides of a page fit in memory.
PREPARE = text("""
    SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('work_mem', '64MB', true)
""")

#: One page of the numbers of created accounts.
ID_MAP = text(f"""
    SELECT external_account_number, service_account_number, account_created_at
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number > :after
      AND state = '{ImportState.IMPORTED}'
    ORDER BY external_account_number LIMIT :limit
""")
