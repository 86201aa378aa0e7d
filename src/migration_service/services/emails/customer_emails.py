"""Customer e-mails, which are recorded with the account, held, and sent from the outbox once (section 1).

Each supplier has a moment from which they are sent (`EmailMoment`). Until then an e-mail is HELD, and an undo
removes it with its account. Whoever brings the moment about makes it PENDING, in the same transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, BigInteger, bindparam, func, select, text
from sqlalchemy.orm import Session

from migration_service.db.base import literals
from migration_service.db.cancelling import allow_minutes
from migration_service.db.sql import OpenTransaction
from migration_service.models import CustomerEmail, ImportSupplier
from migration_service.services.setup.suppliers import IS_NEW, SUPPLIER_IS_LIVE, set_customer_emails
from migration_service.states import EmailMoment, EmailState, LineStatus, WaveState

#: The largest number of e-mails that one sweep releases.
_MOST = 10_000

# Of suppliers whose e-mails wait for nothing, or whose moment has come.
_IS_TIME = f"""
    (supplier.emails_at = '{EmailMoment.AT_CREATION}'
     OR supplier.emails_at = '{EmailMoment.AT_MOMENT}' AND supplier.emails_from <= clock_timestamp())
"""
_WITH_GO_LIVE = (EmailMoment.AT_APPROVAL, EmailMoment.AT_GO_LIVE)
_IS_WITH_GO_LIVE = f"supplier.emails_at IN ({literals(_WITH_GO_LIVE)})"

# The share lock lets a go-live of the supplier, which releases what it finds, wait for this transaction.
_RECORD = f"""
    INSERT INTO customer_email (customer_pk, organisation_id, import_supplier_id, state)
    SELECT customer.id, supplier.organisation_id, supplier.id,
           CASE WHEN {_IS_TIME} OR {_IS_WITH_GO_LIVE} AND {SUPPLIER_IS_LIVE}
                THEN '{EmailState.PENDING}' ELSE '{EmailState.HELD}' END
    FROM account
    JOIN customer ON customer.account_pk = account.id AND customer.email <> ''
    JOIN import_supplier supplier ON supplier.id = account.import_supplier_id
    WHERE supplier.sends_customer_emails
      AND account.account_import_process_id = ANY(%(account_import_process_ids)s::bigint[])
    ORDER BY customer.id FOR SHARE OF supplier
    ON CONFLICT (customer_pk) DO NOTHING
    RETURNING id
"""


def record_customer_emails(transaction: OpenTransaction, account_import_process_ids: Iterable[int]) -> None:
    """Record a message to each customer of these accounts with an address, in the caller's transaction.

    Record none if the supplier does not send e-mails. Call this once for each created account, never in a dry
    run. A customer of an account that was created again has at most one.
    """
    transaction.execute(_RECORD, {"account_import_process_ids": list(account_import_process_ids)})


def release_with_go_live(session: Session, account_ids: Sequence[int]) -> int:
    """Let the held e-mails of accounts that go live be sent, and return their number."""
    return session.scalar(_OF_ACCOUNTS, {"account_ids": list(account_ids)}) or 0


def release_with_approval(session: Session, batch_id: UUID) -> int:
    """Let the held e-mails of a wave that is approved be sent, and return their number."""
    allow_minutes(session)
    session.execute(_LOCK_SUPPLIER, {"batch_id": batch_id})
    return session.scalar(_OF_BATCH, {"batch_id": batch_id}) or 0


def release_due(session: Session) -> int:
    """Let held e-mails be sent whose moment has come, or of which it was brought forward."""
    return session.scalar(_OF_MOMENT, {"most": _MOST}) or 0


def set_policy(
    session: Session, code: str, *, on: bool, at: EmailMoment | None = None, moment: datetime | None = None
) -> None:
    """Set whether and when e-mails are sent, as `set_customer_emails`.

    Held ones whose account has gone live, or whose wave was approved, are released: nobody brings their
    moment about again. A sweep releases those that wait for nothing now.
    """
    set_customer_emails(session, code, on=on, at=at, moment=moment)
    supplier = session.scalars(select(ImportSupplier).where(ImportSupplier.code == code)).one()
    session.refresh(supplier)
    if supplier.emails_at in _WITH_GO_LIVE:
        allow_minutes(session)
        session.execute(_OVERDUE, {"import_supplier_id": supplier.id, "at": supplier.emails_at})


def count_for_policy(
    session: Session, import_supplier_id: int, *, at: EmailMoment | None, moment: datetime | None
) -> int:
    """Return how many held e-mails would be sent, at once or at `moment`, if that were set."""
    before = session.get_one(ImportSupplier, import_supplier_id).emails_at
    chosen = EmailMoment.AT_MOMENT if moment else at or before
    allow_minutes(session)
    values = {"import_supplier_id": import_supplier_id, "at": chosen}
    return session.scalar(_COUNT_OVERDUE, values) or 0


def count_held(session: Session, import_supplier_id: int) -> int:
    """Return the number of held e-mails of a supplier."""
    held = select(func.count()).where(
        CustomerEmail.import_supplier_id == import_supplier_id, CustomerEmail.state == EmailState.HELD
    )
    return session.scalar(held) or 0


def count_for_approval(session: Session, batch_id: UUID) -> int:
    """Return how many e-mails the approval of a wave would release."""
    return session.scalar(_COUNT_FOR_APPROVAL, {"batch_id": batch_id}) or 0


def count_for_go_live(
    session: Session, supplier: ImportSupplier, accounts: str, values: Mapping[str, object]
) -> int:
    """Return how many e-mails a go-live would release. `accounts` is SQL for the ids of its accounts."""
    if not supplier.sends_customer_emails or supplier.emails_at not in _WITH_GO_LIVE:
        return 0
    counted = text(f"""
        SELECT count(*) FROM customer_email AS email JOIN customer ON customer.id = email.customer_pk
        WHERE email.state = '{EmailState.HELD}' AND email.import_supplier_id = :import_supplier_id
          AND customer.account_pk IN ({accounts})""")
    return session.scalar(counted, values) or 0


def _releasing(source: str, *, limit: str = "", locked: str = "") -> str:
    """Return the statement that releases the held e-mails of `source`, locked in the order of their ids."""
    return f"""
        WITH due AS MATERIALIZED (
            SELECT email.id {source} AND supplier.sends_customer_emails
              AND email.state = '{EmailState.HELD}'
            ORDER BY email.id {limit} FOR UPDATE OF email {locked}
        ), released AS (
            UPDATE customer_email AS email
            SET state = '{EmailState.PENDING}', created_at = clock_timestamp(),
                next_try_at = clock_timestamp()
            FROM due WHERE email.id = due.id RETURNING 1)
        SELECT count(*) FROM released
    """


_OF_ACCOUNTS = text(
    _releasing(f"""
        FROM customer JOIN customer_email AS email ON email.customer_pk = customer.id
        JOIN import_supplier AS supplier ON supplier.id = email.import_supplier_id
        WHERE customer.account_pk = ANY (:account_ids) AND {_IS_WITH_GO_LIVE}""")
).bindparams(bindparam("account_ids", type_=ARRAY(BigInteger)))

_APPROVED = f"""
    FROM batch_line AS line
    JOIN batch ON batch.id = line.batch_id
    JOIN account ON account.import_supplier_id = batch.import_supplier_id
     AND account.external_account_number = line.external_account_number
    JOIN customer ON customer.account_pk = account.id
    JOIN customer_email AS email ON email.customer_pk = customer.id
    JOIN import_supplier AS supplier ON supplier.id = email.import_supplier_id
    WHERE line.batch_id = :batch_id
      AND line.status IN ('{LineStatus.IMPORTED}', '{LineStatus.REPLACED}')
      AND supplier.emails_at = '{EmailMoment.AT_APPROVAL}'
"""
_OF_BATCH = text(_releasing(_APPROVED))
# `set_policy` waits for it, and releases what this has held back.
_LOCK_SUPPLIER = text("""
    SELECT supplier.id FROM batch JOIN import_supplier AS supplier ON supplier.id = batch.import_supplier_id
    WHERE batch.id = :batch_id FOR SHARE OF supplier
""")
_COUNT_FOR_APPROVAL = text(
    f"SELECT count(*) {_APPROVED} AND email.state = '{EmailState.HELD}' AND supplier.sends_customer_emails"
)

_IS_APPROVED = f"""
    EXISTS (SELECT FROM wave JOIN wave_plan AS plan ON plan.id = wave.plan_id
            JOIN batch_line AS line ON line.batch_id = wave.batch_id
            WHERE plan.import_supplier_id = supplier.id
              AND (wave.state = '{WaveState.APPROVED}' OR wave.state = '{WaveState.CLEAN}'
                   AND coalesce(wave.continue_if_clean, plan.continue_if_clean))
              AND line.external_account_number = account.external_account_number
              AND line.status IN ('{LineStatus.IMPORTED}', '{LineStatus.REPLACED}'))
"""
#: Held e-mails of a supplier that wait for nothing any more if they are sent at the moment `:at`.
_OF_POLICY = f"""
    FROM import_supplier AS supplier
    JOIN customer_email AS email ON email.import_supplier_id = supplier.id
    JOIN customer ON customer.id = email.customer_pk
    JOIN account ON account.id = customer.account_pk
    WHERE supplier.id = :import_supplier_id AND email.state = '{EmailState.HELD}'
      AND (:at NOT IN ({literals(_WITH_GO_LIVE)}) OR {IS_NEW}
           OR :at = '{EmailMoment.AT_APPROVAL}' AND {_IS_APPROVED})
"""
_OVERDUE, _COUNT_OVERDUE = text(_releasing(_OF_POLICY)), text(f"SELECT count(*) {_OF_POLICY}")

_OF_MOMENT = text(
    _releasing(
        f"""
        FROM import_supplier AS supplier
        JOIN customer_email AS email ON email.import_supplier_id = supplier.id
        WHERE {_IS_TIME}""",
        limit="LIMIT :most",
        locked="SKIP LOCKED",
    )
)
