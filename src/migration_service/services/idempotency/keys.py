"""Idempotency keys, with which a repeated request gets the answer to the first one.

A request claims its key in a separate transaction. Its answer is stored in the transaction of its effect, if
it has one, so that neither exists without the other. A claim is a lease: if its process was killed, the key
can be claimed again after LEASE_SECONDS, and the former holder can no longer store an answer.

A request to the process endpoint uses the id of its claim as the id of its attempt. The attempt then records
the outcome of the request, even after a crash.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb
from sqlalchemy import Row, TextClause, text
from sqlalchemy.orm import Session

from migration_service.errors import (
    ErrorItem,
    IdempotencyKeyReusedError,
    IdempotencyRequestInProgressError,
)
from migration_service.states import Outcome

#: The largest length of a key.
MAX_KEY = 128
#: Longer than any request takes, including the wait for a worker and the calls to a payment vendor.
LEASE_SECONDS = 90
#: The retention period of answers.
KEPT_FOR_HOURS = 24
#: The largest number of keys removed in one transaction.
PIECE = 10_000


def find_fault(key: str) -> ErrorItem | None:
    """Return the fault of a key, or None if it can be used."""
    if 0 < len(key) <= MAX_KEY and key.isprintable():
        return None
    detail = f"An Idempotency-Key has 1 to {MAX_KEY} printable characters."
    return ErrorItem("idempotency_key_invalid", detail, "Idempotency-Key")


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with an Idempotency-Key."""

    organisation_id: int
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


@dataclass(frozen=True, slots=True)
class EarlierAttempt:
    """The attempt of an earlier request with the same key. Its state is the answer."""

    attempt_id: UUID


def claim_key(session: Session, request: KeyedRequest, claim_id: UUID) -> KeptAnswer | EarlierAttempt | None:
    """Claim the key for this request, or return the answer to an earlier one.

    None means that the key is claimed and the request should be carried out. Raise IdempotencyKeyReusedError
    if the key was used for a different request, and IdempotencyRequestInProgressError while the first request
    is running.
    """
    values = _names(request, claim_id) | {
        "sha256": request.sha256,
        "import_supplier": request.import_supplier,
        "external_account_number": request.external_account_number,
        "lease": LEASE_SECONDS,
        "kept_for": KEPT_FOR_HOURS,
    }
    if session.execute(_CLAIM, values).first() is not None:
        return None
    # It exists, because the statement has locked it even without changing it.
    return _answer(session.execute(_FIND, values).one(), request)


def keep_answer(session: Session, request: KeyedRequest, claim_id: UUID, answer: KeptAnswer) -> None:
    """Store the answer to a claimed request, preferably in the transaction of its effect.

    Raise IdempotencyRequestInProgressError if the lease expired and another request claimed the key. The
    effect must then be rolled back.
    """
    kept = session.execute(_KEEP, _names(request, claim_id) | _columns(answer)).first()
    if kept is None:
        raise IdempotencyRequestInProgressError


def release_key(session: Session, request: KeyedRequest, claim_id: UUID) -> None:
    """End a claim without an answer, so that the same request can be repeated.

    A request that started an attempt keeps its key, because the attempt is the answer.
    """
    session.execute(_END_LEASE, _names(request, claim_id))
    session.execute(_FORGET, _names(request, claim_id))


def remove_old_keys(session: Session) -> int:
    """Remove at most PIECE expired keys, and return their number."""
    return len(session.execute(_REMOVE, {"limit": PIECE, "kept_for": KEPT_FOR_HOURS}).all())


def void_keys(session: Session, import_supplier: str, external_account_numbers: Collection[str]) -> int:
    """Remove the keys of all requests that name one of these accounts, and return their number.

    This is for erasure and undo: an answer that is no longer true must not be repeated.
    """
    names = {"import_supplier": import_supplier, "numbers": list(external_account_numbers)}
    return len(session.execute(_VOID, names).all())


def _names(request: KeyedRequest, claim_id: UUID) -> dict[str, Any]:
    return {
        "organisation_id": request.organisation_id,
        "endpoint": request.endpoint,
        "key": request.key,
        "claim_id": claim_id,
    }


def _columns(answer: KeptAnswer) -> dict[str, Any]:
    return {"status": answer.status, "headers": Jsonb(answer.headers), "body": answer.body}


def _answer(found: Row[Any], request: KeyedRequest) -> KeptAnswer | EarlierAttempt:
    if found.request_sha256 != request.sha256:
        raise IdempotencyKeyReusedError
    if found.status is not None:
        return KeptAnswer(found.status, found.headers, found.body)
    if found.is_leased or not found.has_attempt:
        raise IdempotencyRequestInProgressError
    return EarlierAttempt(found.claim_id)


# A withdrawn attempt never ran, so it is no answer.
_HAS_ATTEMPT = f"""EXISTS (
    SELECT FROM attempt
    WHERE attempt.id = idempotency_key.claim_id AND attempt.outcome IS DISTINCT FROM '{Outcome.WITHDRAWN}'
)"""

_MINE = """organisation_id = :organisation_id AND endpoint = :endpoint AND key = :key
      AND claim_id = :claim_id AND status IS NULL"""


def _statement(sql: str) -> TextClause:
    return text(sql.replace("{has_attempt}", _HAS_ATTEMPT).replace("{mine}", _MINE))


_CLAIM = _statement("""
    INSERT INTO idempotency_key
        (organisation_id, endpoint, key, request_sha256, claim_id, leased_until, import_supplier,
         external_account_number)
    VALUES (:organisation_id, :endpoint, :key, :sha256, :claim_id, now() + make_interval(secs => :lease),
            :import_supplier, :external_account_number)
    ON CONFLICT (organisation_id, endpoint, key) DO UPDATE
    SET request_sha256 = excluded.request_sha256, claim_id = excluded.claim_id,
        leased_until = excluded.leased_until, import_supplier = excluded.import_supplier,
        external_account_number = excluded.external_account_number, created_at = now(),
        status = NULL, headers = NULL, body = NULL
    WHERE idempotency_key.created_at < now() - make_interval(hours => :kept_for)
       OR (idempotency_key.status IS NULL AND idempotency_key.leased_until <= now()
           AND idempotency_key.request_sha256 = excluded.request_sha256 AND NOT {has_attempt})
    RETURNING claim_id
""")

_FIND = _statement("""
    SELECT request_sha256, claim_id, status, headers, body, leased_until > now() AS is_leased,
           {has_attempt} AS has_attempt
    FROM idempotency_key
    WHERE organisation_id = :organisation_id AND endpoint = :endpoint AND key = :key
""")

_KEEP = _statement("""
    UPDATE idempotency_key SET status = :status, headers = :headers, body = :body
    WHERE {mine} RETURNING key
""")

_END_LEASE = _statement("UPDATE idempotency_key SET leased_until = now() WHERE {mine}")

_FORGET = _statement("DELETE FROM idempotency_key WHERE {mine} AND NOT {has_attempt}")

_REMOVE = text("""
    DELETE FROM idempotency_key WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM idempotency_key
        WHERE created_at < now() - make_interval(hours => :kept_for) LIMIT :limit))
    RETURNING 1
""")

_VOID = text("""
    DELETE FROM idempotency_key
    WHERE import_supplier = :import_supplier AND external_account_number = ANY (:numbers)
    RETURNING 1
""")
