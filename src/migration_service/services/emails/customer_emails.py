"""Customer e-mails, which are recorded with the account and sent later from the outbox (section 1)."""

from collections.abc import Iterable

from migration_service.db.sql import OpenTransaction

_RECORD = """
    INSERT INTO customer_email (customer_pk, organisation_id)
    SELECT customer.id, supplier.organisation_id
    FROM account
    JOIN customer ON customer.account_pk = account.id AND customer.email <> ''
    JOIN import_supplier supplier ON supplier.id = account.import_supplier_id
    WHERE supplier.sends_customer_emails
      AND account.account_import_process_id = ANY(%(account_import_process_ids)s::bigint[])
    ORDER BY customer.id
    ON CONFLICT (customer_pk) DO NOTHING
    RETURNING id
"""


def record_customer_emails(transaction: OpenTransaction, account_import_process_ids: Iterable[int]) -> None:
    """Record a message to each customer of these accounts with an address, in the caller's transaction.

    Record none if the supplier does not send e-mails. Call this once for each created account, never in a dry
    run. A customer of an account that was created again has at most one.
    """
    transaction.execute(_RECORD, {"account_import_process_ids": list(account_import_process_ids)})
