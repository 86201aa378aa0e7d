"""Idempotency keys, with which a repeated request gets the answer to the first one.

The key and the answer are stored in the transaction of the effect, so that neither exists without the other,
and a refused request or a killed process leaves nothing. Of simultaneous requests with the same key, the
first one to commit has the effect. The others are rolled back, and get its answer.

The answer to a process request is its attempt, which records the outcome even after a crash.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb
from sqlalchemy import text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from migration_service import errors
from migration_service.db.base import new_id
from migration_service.db.sql import OpenTransaction, SqlConnection
from migration_service.states import Outcome

#: The largest length of a key.
MAX_KEY = 128
#: The retention period of answers.
KEPT_FOR_HOURS = 24
#: The answers of an organisation that are kept so long, in bytes as stored. Beyond it the oldest are removed.
MOST_BYTES = 2_000_000_000
#: The largest number of keys removed in one transaction.
PIECE = 10_000


def find_fault(key: str) -> errors.ErrorItem | None:
    """Return the fault of a key, or None if it can be used."""
    if 0 < len(key) <= MAX_KEY and key.isprintable():
        return None
    detail = f"An Idempotency-Key has 1 to {MAX_KEY} printable characters."
    return errors.ErrorItem("idempotency_key_invalid", detail, "Idempotency-Key")


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with an Idempotency-Key, or a form of the console with its token."""

    #: None for a form of the console.
    organisation_id: int | None
    endpoint: str
    key: str
    #: The hash of everything in the request that matters.
    sha256: bytes
    #: The account named in the request, if any.
    import_supplier: str | None = None
    external_account_number: str | None = None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer to an earlier request with the same key."""

    status: int
    headers: dict[str, str]
    body: bytes
    #: The row that it is about, if it is to be removed with it (`void_answers`).
    subject: UUID | None = None


@dataclass(frozen=True, slots=True)
class EarlierAttempt:
    """The attempt of an earlier request with the same key. Its state is the answer."""

    attempt_id: UUID


def find_answer(connection: SqlConnection, request: KeyedRequest) -> KeptAnswer | EarlierAttempt | None:
    """Return the answer to an earlier request with the same key, or None if there is none.

    Raise IdempotencyKeyReusedError if the key was used for a different request.
    """
    rows = connection.execute(_FIND, _values(request))
    if not rows:
        return None
    (found,) = rows
    if found.request_sha256 != request.sha256:
        raise errors.IdempotencyKeyReusedError
    if found.status is None:
        return EarlierAttempt(found.claim_id)
    return KeptAnswer(found.status, found.headers, found.body)


def keep_answer(
    transaction: OpenTransaction, request: KeyedRequest, answer: KeptAnswer | EarlierAttempt
) -> None:
    """Store the answer to a request in the transaction of its effect.

    Raise IdempotencyRequestInProgressError if another request with the same key has stored one, or is about
    to. The effect must then be rolled back.
    """
    values: dict[str, Any] = {"status": None, "headers": None, "body": None}
    if isinstance(answer, EarlierAttempt):
        values["claim_id"] = answer.attempt_id
    else:
        values |= {"status": answer.status, "headers": Jsonb(answer.headers), "body": answer.body}
        values["claim_id"] = answer.subject or new_id()
    try:
        kept = transaction.execute(_KEEP, _values(request) | values)
    except OperationalError as error:
        if isinstance(error.orig, LockNotAvailable):
            raise errors.IdempotencyRequestInProgressError from error
        raise
    if not kept:
        raise errors.IdempotencyRequestInProgressError


def remove_old_keys(session: Session) -> int:
    """Remove at most PIECE keys that expired, or whose answers exceed MOST_BYTES. Return their number."""
    values = {"limit": PIECE, "kept_for": KEPT_FOR_HOURS, "most": MOST_BYTES}
    return len(session.execute(_REMOVE, values).all())


def void_keys(session: Session, import_supplier: str, external_account_numbers: Collection[str]) -> int:
    """Remove the keys of all requests that name one of these accounts, and return their number.

    This is for erasure and undo: an answer that is no longer true must not be repeated.
    """
    names = {"import_supplier": import_supplier, "numbers": list(external_account_numbers)}
    return len(session.execute(_VOID, names).all())


def void_answers(session: Session, organisation_id: int, endpoints: Collection[str], subject: UUID) -> None:
    """Remove the answers of these endpoints that are about a row that is removed."""
    values = {"organisation_id": organisation_id, "endpoints": list(endpoints), "subject": subject}
    session.execute(_VOID_ANSWERS, values)


def _values(request: KeyedRequest) -> dict[str, Any]:
    return {
        "organisation_id": request.organisation_id or _CONSOLE,
        "endpoint": request.endpoint,
        "key": request.key,
        "sha256": request.sha256,
        "import_supplier": request.import_supplier,
        "external_account_number": request.external_account_number,
        "kept_for": KEPT_FOR_HOURS,
    }


#: Stands for the organisation of a form of the console.
_CONSOLE = 0

# A withdrawn attempt never ran, so it is no answer.
_COUNTS = f"""(
    idempotency_key.created_at >= now() - make_interval(hours => %(kept_for)s)
    AND (idempotency_key.status IS NOT NULL OR EXISTS (
        SELECT FROM attempt
        WHERE attempt.id = idempotency_key.claim_id
              AND attempt.outcome IS DISTINCT FROM '{Outcome.WITHDRAWN}')))
"""


_FIND = f"""
    SELECT request_sha256, claim_id, status, headers, body
    FROM idempotency_key
    WHERE organisation_id = %(organisation_id)s AND endpoint = %(endpoint)s AND key = %(key)s AND {_COUNTS}
"""

_KEEP = f"""
    INSERT INTO idempotency_key
        (organisation_id, endpoint, key, request_sha256, claim_id, status, headers, body, import_supplier,
         external_account_number)
    VALUES (%(organisation_id)s, %(endpoint)s, %(key)s, %(sha256)s, %(claim_id)s, %(status)s, %(headers)s,
            %(body)s, %(import_supplier)s, %(external_account_number)s)
    ON CONFLICT (organisation_id, endpoint, key) DO UPDATE
    SET request_sha256 = excluded.request_sha256, claim_id = excluded.claim_id, status = excluded.status,
        headers = excluded.headers, body = excluded.body, import_supplier = excluded.import_supplier,
        external_account_number = excluded.external_account_number, created_at = now()
    WHERE NOT {_COUNTS}
    RETURNING key
"""

# The answers are only added up if the table is so large that an organisation may have too many.
_REMOVE = text("""
    DELETE FROM idempotency_key WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM idempotency_key WHERE created_at < now() - make_interval(hours => :kept_for)
        UNION ALL
        SELECT ctid FROM (
            SELECT ctid, sum(pg_column_size(body)) OVER (
                PARTITION BY organisation_id ORDER BY created_at DESC, key) AS bytes
            FROM idempotency_key WHERE (SELECT pg_table_size('idempotency_key')) > :most) AS newest
        WHERE bytes > :most
        LIMIT :limit))
    RETURNING 1
""")

_VOID = text("""
    DELETE FROM idempotency_key
    WHERE import_supplier = :import_supplier AND external_account_number = ANY (:numbers)
    RETURNING 1
""")

# The primary key begins with the organisation and the endpoint.
_VOID_ANSWERS = text("""
    DELETE FROM idempotency_key
    WHERE organisation_id = :organisation_id AND endpoint = ANY (:endpoints) AND claim_id = :subject
""")
