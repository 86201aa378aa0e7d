"""Finding an account by either of its numbers or by a meter point, and batches and plans by their names."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_payloads.schemas.identifiers import plain_identifier, without_hidden
from migration_service.services.setup.names import is_name

#: What a spreadsheet puts in front of a number that is a text.
_APOSTROPHES = "'\u2018\u2019`\u00b4"


def find_accounts(
    session: Session, wanted: str, *, import_supplier_ids: Collection[int], limit: int = 50
) -> Sequence[Any]:
    """Return the accounts of these suppliers with this number, or with a meter point with this EAN.

    Only complete numbers are found, because an index has to find them among millions. What cannot be seen and
    an apostrophe in front do not count, nor what separates the digits of an EAN.
    """
    plain = plain_identifier(without_hidden(wanted))
    numbers = [it for it in {plain, plain.lstrip(_APOSTROPHES).lstrip()} if is_name(it)]
    if not numbers:
        return []
    eans = [*numbers, "".join(it for it in plain if it.isalnum())]
    values = {"numbers": numbers, "eans": eans, "suppliers": list(import_supplier_ids), "limit": limit}
    return session.execute(_FIND, values).all()


def find_work(
    session: Session, wanted: str, *, import_supplier_ids: Collection[int], limit: int = 20
) -> Sequence[Any]:
    """Return the batches and plans with this text in their name, file or id, the newest first."""
    values = {"wanted": wanted.casefold(), "suppliers": list(import_supplier_ids), "limit": limit}
    return session.execute(_FIND_WORK, values).all()


_FIND_WORK = text("""
    SELECT is_plan, work.id, work.name, file_name, supplier.code AS import_supplier, work.created_at
    FROM (SELECT false AS is_plan, id, name, file_name, import_supplier_id, created_at FROM batch
          UNION ALL
          SELECT true, id, name, NULL, import_supplier_id, created_at FROM wave_plan) AS work
    JOIN import_supplier AS supplier ON supplier.id = import_supplier_id
    WHERE import_supplier_id = ANY (:suppliers)
      AND strpos(lower(concat_ws(' ', work.name, file_name, CAST(work.id AS text))), :wanted) > 0
    ORDER BY work.created_at DESC LIMIT :limit
""")

# Each part has a separate index. Lines are only searched for accounts that were never staged.
_FIND = text("""
    WITH staged AS (
        SELECT process.id FROM account_import_process AS process
        WHERE process.import_supplier_id = ANY (:suppliers)
          AND process.external_account_number = ANY (:numbers)
        UNION
        SELECT account.account_import_process_id FROM account
        WHERE account.service_account_number = ANY (:numbers)
        UNION
        SELECT account.account_import_process_id
        FROM meter_point
        JOIN supply_address AS address ON address.id = meter_point.supply_address_pk
        JOIN account ON account.id = address.account_pk
        WHERE meter_point.ean = ANY (:eans))
    SELECT supplier.code AS import_supplier, process.external_account_number, process.service_account_number,
           process.state
    FROM staged
    JOIN account_import_process AS process ON process.id = staged.id
    JOIN import_supplier AS supplier ON supplier.id = process.import_supplier_id
    WHERE process.import_supplier_id = ANY (:suppliers)
    ORDER BY supplier.code, process.external_account_number
    LIMIT :limit
""")
