"""The SQL statements of `services.accounts.erasure`."""

from sqlalchemy import text

from migration_service.db.base import literals
from migration_service.errors import AccountMarkedToSkipError
from migration_service.states import ImportState, LineStatus

#: Lock the organisation until the transaction ends. False if another erasure has locked it. The first number
#: distinguishes these advisory locks from others.
HOLD_ORGANISATION = text("SELECT pg_try_advisory_xact_lock(7215, hashint8(:organisation_id))")

LOCK_PROCESS = text("""
    SELECT id, state, service_account_number, payload IS NOT NULL AS has_payload
    FROM account_import_process
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
    FOR UPDATE
""")

FIND_MARK = text("""
    SELECT FROM skip_mark
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: Locked, so that nothing is added to the account in the meantime.
LOCK_ACCOUNT = text("SELECT id FROM account WHERE account_import_process_id = :process_id FOR UPDATE")

_OPEN = literals(status for status in LineStatus if status.is_open)

# The codes of errors are kept, because they are counted. Their texts may contain values that were sent.
_CODES_ONLY = """(
    SELECT jsonb_agg(jsonb_build_object('detail', 'Erased.', 'code', item ->> 'code', 'attr', NULL))
    FROM jsonb_array_elements(line.{}) AS item)"""

#: The lines with the number, and lines without one whose text contains it. Both have an index. A worker locks
#: the lines that it processes, so this waits for their outcomes and then erases them.
ERASE_LINES = text(f"""
    WITH kept AS MATERIALIZED (
        SELECT id FROM batch WHERE import_supplier_id = :import_supplier_id AND lines_removed_at IS NULL),
    found AS MATERIALIZED (
        SELECT batch_id, line_number FROM kept JOIN batch_line ON batch_id = kept.id
        WHERE external_account_number = :number
        UNION ALL
        SELECT batch_id, line_number FROM kept JOIN batch_line ON batch_id = kept.id
        WHERE external_account_number IS NULL AND greatest(
            position(CAST(:plain AS bytea) IN payload), position(CAST(:escaped AS bytea) IN payload)) > 0)
    UPDATE batch_line AS line
    SET payload = NULL, understood = NULL, warnings = {_CODES_ONLY.format("warnings")},
        status = CASE WHEN line.status IN ({_OPEN}) THEN '{LineStatus.SKIPPED}' ELSE line.status END,
        errors = CASE WHEN line.status IN ({_OPEN}) THEN
            '[{{"detail": "Erased.", "code": "{AccountMarkedToSkipError.code}", "attr": null}}]'
            ELSE {_CODES_ONLY.format("errors")} END
    FROM found
    WHERE line.batch_id = found.batch_id AND line.line_number = found.line_number
    RETURNING 1
""")

#: Lines of a batch that have just got their outcome and whose account was erased before.
ERASE_OUTCOMES = text(f"""
    UPDATE batch_line AS line
    SET payload = NULL, understood = NULL, errors = {_CODES_ONLY.format("errors")},
        warnings = {_CODES_ONLY.format("warnings")}
    WHERE line.batch_id = :batch_id AND line.line_number = ANY (:line_numbers)
      AND (EXISTS (SELECT FROM skip_mark
                   WHERE skip_mark.import_supplier_id = :import_supplier_id
                     AND skip_mark.external_account_number = line.external_account_number
                     AND skip_mark.erased_at IS NOT NULL)
           OR EXISTS (SELECT FROM account_import_process AS process
                      JOIN account ON account.account_import_process_id = process.id
                      WHERE process.import_supplier_id = :import_supplier_id
                        AND process.external_account_number = line.external_account_number
                        AND account.erased_at IS NOT NULL))
""")

MARK_ERASED = text("""
    UPDATE skip_mark SET erased_at = coalesce(erased_at, now())
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: Accounts first staged while they were being erased, so that neither transaction saw the other.
LOCK_STAGED_AGAIN = text(f"""
    SELECT process.id FROM skip_mark AS mark
    JOIN account_import_process AS process USING (import_supplier_id, external_account_number)
    WHERE mark.erased_at IS NOT NULL
      AND process.state IN ({literals([ImportState.PENDING, ImportState.SKIPPED])})
    LIMIT :limit FOR UPDATE OF process SKIP LOCKED
""")

#: A reason may contain anything. The acknowledgement, its author and its time are kept.
ERASE_REASONS = text("""
    UPDATE acknowledgement SET reason = 'Erased.'
    WHERE import_supplier_id = :import_supplier_id AND external_account_number = :number
""")

#: The hash of a payload would confirm a correct guess.
ERASE_PROCESS = text("""
    UPDATE account_import_process SET payload = NULL, warnings = NULL, payload_sha256 = '',
        refused_at = NULL, refused_errors = NULL, refused_extracted_at = NULL, refused_batch_id = NULL,
        refused_line_number = NULL
    WHERE id = :process_id
""")

ERASE_ATTEMPTS = text("""
    UPDATE attempt SET errors = NULL, error_detail = NULL WHERE account_import_process_id = :process_id
""")

REMOVE_ATTEMPTS = text("DELETE FROM attempt WHERE account_import_process_id = ANY (:process_ids)")
REMOVE_PROCESSES = text("DELETE FROM account_import_process WHERE id = ANY (:process_ids)")

_CUSTOMERS = "SELECT id FROM customer WHERE account_pk = :account_id"
_ADDRESSES = "SELECT id FROM supply_address WHERE account_pk = :account_id"
_METER_POINTS = f"SELECT id FROM meter_point WHERE supply_address_pk IN ({_ADDRESSES})"
_AGREEMENTS = f"SELECT id FROM agreement WHERE meter_point_pk IN ({_METER_POINTS})"
_ADVANCES = f"SELECT id FROM monthly_advance_charge_template WHERE agreement_pk IN ({_AGREEMENTS})"
_METERS = f"SELECT id FROM meter WHERE meter_point_pk IN ({_METER_POINTS})"
_TRANSACTIONS = 'SELECT id FROM "transaction" WHERE account_pk = :account_id'

REMOVE_CUSTOMERS = text("DELETE FROM customer WHERE account_pk = :account_id RETURNING 1")

ERASE_BELOW_CUSTOMERS = [
    text(f"DELETE FROM customer_email WHERE customer_pk IN ({_CUSTOMERS})"),
    text(f"DELETE FROM user_detail WHERE customer_pk IN ({_CUSTOMERS})"),
]
#: All other personal data of the account.
ERASE_ACCOUNT = [
    text(f"DELETE FROM cost_detail WHERE monthly_advance_charge_template_pk IN ({_ADVANCES})"),
    text(f"DELETE FROM monthly_advance_charge_template WHERE agreement_pk IN ({_AGREEMENTS})"),
    text(f"DELETE FROM agreement WHERE meter_point_pk IN ({_METER_POINTS})"),
    text(f"DELETE FROM register WHERE meter_pk IN ({_METERS})"),
    text(f"DELETE FROM meter WHERE meter_point_pk IN ({_METER_POINTS})"),
    *(
        text(f"DELETE FROM {table} WHERE meter_point_pk IN ({_METER_POINTS})")
        for table in (
            "energy_meter_point_configuration_period",
            "energy_meter_point_grid_operator_effective_period",
            "billing_configuration_period",
            "estimated_annual_volume",
        )
    ),
    text(f"DELETE FROM meter_point WHERE supply_address_pk IN ({_ADDRESSES})"),
    text("DELETE FROM supply_address WHERE account_pk = :account_id"),
    text("DELETE FROM note WHERE account_pk = :account_id"),
    text("DELETE FROM payment_instruction WHERE account_pk = :account_id"),
    text("UPDATE ledger SET identifiers = NULL WHERE account_pk = :account_id"),
    text("""
        UPDATE "transaction"
        SET reference = NULL, display_note = NULL, note = NULL, reason = NULL WHERE account_pk = :account_id
    """),
    # Consumption is personal data. The amounts billed for it are kept.
    text(f"""
        UPDATE line_item SET number_of_units = NULL, price_per_unit = NULL, units = NULL, ref = NULL
        WHERE transaction_pk IN ({_TRANSACTIONS})
    """),
    text(f"UPDATE tax_item SET value_taxed = NULL, vat_on = NULL WHERE transaction_pk IN ({_TRANSACTIONS})"),
    text("""
        UPDATE statement SET statement_path = NULL, statement_location = NULL, statement_pdf_context = NULL
        WHERE account_pk = :account_id
    """),
    text("""
        UPDATE account SET billing_address1 = NULL, billing_address2 = NULL, billing_address3 = NULL,
            billing_address4 = NULL, billing_postcode = NULL, erased_at = coalesce(erased_at, now())
        WHERE id = :account_id
    """),
]
