"""Making certificates: workers hash the accounts in pieces, and the last piece signs what is known of them.

The row of a certificate says what is hashed next. Whoever locks it hashes one piece, and commits the leaves
and the next place together. The file is read from what is stored, so that it is the same at each time.
"""

import base64
import os
from hashlib import sha256
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Uuid, bindparam, func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from migration_payloads.files import certificates as format_
from migration_payloads.moments import write_moment
from migration_payloads.normal_form import ACCOUNT, read_json
from migration_payloads.schemas.json import encode_json, finite
from migration_service import errors
from migration_service.db.base import new_id
from migration_service.db.cancelling import allow_minutes
from migration_service.db.jobs import Progress
from migration_service.db.sql import OpenTransaction
from migration_service.models import Batch, Certificate, CertificateLeaf
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.results.counts import get_progress
from migration_service.services.reconciliation.comparisons import find_kept
from migration_service.services.reconciliation.created_sql import (
    JOIN_ORIGIN,
    PLAN_EACH_TIME,
    created_account,
)
from migration_service.services.reconciliation.receipts import Receipt, read_receipt
from migration_service.services.reconciliation.submitted import IS_FIRST
from migration_service.services.reconciliation.verdict import describe_verdict, list_problems
from migration_service.services.setup.suppliers import IS_NEW, KnownSupplier, get_import_supplier_by_id

_SALT = 32
#: Rows of accounts that are in memory together.
_TOGETHER = 50
#: The most reasons of acknowledgements that are listed.
_MOST_REASONS = 1_000


def start_certificate(
    session: Session, supplier: KnownSupplier, batch_id: UUID | None, *, key: str, by: str
) -> Certificate:
    """Start a certificate of a supplier's book or a batch, or return the one that is being made.

    Raise CertificatesNotSetUpError without a key, and CertificateStateError without a kept comparison.
    """
    if not key:
        raise errors.CertificatesNotSetUpError
    if find_kept(session, supplier.id, batch_id) is None:
        raise errors.CertificateStateError(
            "Nothing has been compared yet, so there is no receipt. Reconcile first."
        )
    values = {"import_supplier_id": supplier.id, "batch_id": batch_id, "requested_by": by}
    started = insert(Certificate).values(id=new_id(), organisation_id=supplier.organisation_id, **values)
    is_new = session.scalar(started.on_conflict_do_nothing().returning(Certificate.id))
    if is_new:
        owner = supplier.organisation_id
        record(session, AuditAction.CERTIFICATE_STARTED, "certificate", is_new, organisation_id=owner)
    return session.scalars(
        select(Certificate).where(
            Certificate.import_supplier_id == supplier.id,
            Certificate.batch_id.is_not_distinct_from(batch_id),
            Certificate.finished_at.is_(None),
        )
    ).one()


def certify_piece(session: Session, certificate_id: UUID, key: str) -> Progress:
    """Hash one piece of the accounts, unless somebody else is doing one. The caller commits."""
    mine = select(Certificate).where(Certificate.id == certificate_id, Certificate.finished_at.is_(None))
    certificate = session.scalars(
        mine.with_for_update(skip_locked=True).execution_options(populate_existing=True)
    ).one_or_none()
    if certificate is None or not key:
        return Progress.WAITS if session.scalar(select(mine.exists())) else Progress.OVER
    number = _hash_accounts(session, certificate)
    certificate.dispatched_at = func.clock_timestamp()
    if number == format_.SUBTREE:
        return Progress.WORKED
    _finish(session, certificate, load_key(key))
    return Progress.OVER


def load_key(key: str) -> Ed25519PrivateKey:
    """Return the key of the setting, which is not empty."""
    return Ed25519PrivateKey.from_private_bytes(base64.urlsafe_b64decode(key))


def _hash_accounts(session: Session, certificate: Certificate) -> int:
    """Store the leaves of the next accounts, and return their number."""
    is_batch = certificate.batch_id is not None
    values = {
        "import_supplier_id": certificate.import_supplier_id,
        "after": (certificate.place or {}).get("after", 0 if is_batch else ""),
        "limit": format_.SUBTREE,
        **({"batch_id": certificate.batch_id} if is_batch else {}),
    }
    session.execute(PLAN_EACH_TIME)
    options = {"stream_results": True, "yield_per": _TOGETHER}
    rows = session.execute(_PAGE_OF_BATCH if is_batch else _PAGE, values, execution_options=options)
    leaves: list[bytes] = []
    made: list[tuple[Any, ...]] = []
    for row in rows:
        entry = _make_entry(row)
        leaves.append(format_.leaf_of(entry))
        made.append((row.external_account_number, leaves[-1], format_.encode(entry).decode()))
        certificate.owned += row.is_new
        certificate.place = {"after": row.place}
    if made:
        with OpenTransaction.of(session).copy(_COPY) as copy:
            for offset, values_of in enumerate(made):
                subtree = format_.fold(leaves) if offset == len(made) - 1 else None
                copy.write_row((certificate.id, certificate.accounts + offset + 1, *values_of, subtree))
    certificate.accounts += len(made)
    return len(made)


def _make_entry(row: Any) -> dict[str, Any]:
    """Return the numbers of an account, and the salted hashes of what was sent and of what was created."""
    salt = os.urandom(_SALT)
    sent = None if row.sent is None else ACCOUNT.digest(read_json(row.sent))
    # What the database finds equal has the same normal form.
    created = ACCOUNT.digest(read_json(row.created)) if row.created is not None else sent
    return {
        "external_account_number": row.external_account_number,
        "service_account_number": row.service_account_number,
        "sent": None if sent is None else format_.salted(salt, sent),
        "created": format_.salted(salt, created or b""),
        "salt": salt.hex(),
    }


def _finish(session: Session, certificate: Certificate, key: Ed25519PrivateKey) -> None:
    """Write and sign the lines before those of the accounts."""
    allow_minutes(session)
    session.flush()
    supplier = get_import_supplier_by_id(session, certificate.import_supplier_id)
    parts = _describe_parts(session, certificate, read_receipt(session, supplier, certificate.batch_id))
    lines = {name: _encode({"part": name, **parts[name]}) for name in format_.PARTS}
    head = _encode(
        {
            "part": "certificate",
            "version": 1,
            "certificate_id": str(certificate.id),
            "import_supplier": supplier.code,
            "scope": None if certificate.batch_id is None else str(certificate.batch_id),
            "made_at": write_moment(session.scalars(select(func.clock_timestamp())).one()),
            "accounts": certificate.accounts,
            "root": format_.fold(read_subtrees(session, certificate)).hex(),
            "parts": {name: sha256(line).hexdigest() for name, line in lines.items()},
        }
    )
    signature = {
        "part": "signature",
        "algorithm": "Ed25519",
        "public_key": key.public_key().public_bytes_raw().hex(),
        "signature": key.sign(format_.signed_text(head)).hex(),
    }
    certificate.beginning = b"".join(
        it + b"\n" for it in (head, _encode(signature), *lines.values())
    ).decode()
    certificate.finished_at = func.clock_timestamp()


def read_subtrees(session: Session, certificate: Certificate) -> list[bytes]:
    """Return the roots of all subtrees of the tree, in order."""
    own = select(CertificateLeaf.subtree).where(
        CertificateLeaf.certificate_id == certificate.id, CertificateLeaf.subtree.is_not(None)
    )
    return [it for it in session.scalars(own.order_by(CertificateLeaf.number)) if it is not None]


def _encode(value: Any) -> bytes:
    return encode_json(finite(value))


def _describe_parts(
    session: Session, certificate: Certificate, receipt: Receipt
) -> dict[str, dict[str, Any]]:
    """Return what is known of the accounts, by part."""
    verdict = receipt.verdict
    values = {
        "import_supplier_id": certificate.import_supplier_id,
        "batch_id": certificate.batch_id,
        "certificate_id": certificate.id,
        "comparison_id": receipt.comparison_id,
        "limit": _MOST_REASONS,
    }
    files = []
    for it in verdict.book.files if verdict.book else ():
        codes = get_progress(session, session.get_one(Batch, it.batch_id))
        files.append(
            {
                "file": it,
                "results": codes.counts,
                "errors": codes.error_counts,
                "warnings": codes.warning_counts,
            }
        )
    created = verdict.totals.measures.get("accounts", (0, 0))[1]
    owners = {"new": certificate.owned, "old": certificate.accounts - certificate.owned}
    return {
        "receipt": {
            "comparison_id": receipt.comparison_id,
            "sent": verdict.sent,
            "book": verdict.book and verdict.book.totals,
            **describe_verdict(verdict),
            # What nobody has accepted, and what was, of which an account is named by its place here.
            "open": list_problems(receipt.open),
            "exceptions": _list(session, _EXCEPTIONS, values),
            # Whether the certificate has exactly the accounts that were compared.
            "is_of_all_compared": certificate.accounts == created,
        },
        "files": {"files": files},
        "acknowledgements": {"reasons": _list(session, _ACKNOWLEDGEMENTS, values)},
        "approvals": {"requested_by": certificate.requested_by, "waves": _list(session, _APPROVALS, values)},
        "owners": {"accounts": owners, "go_live": _list(session, _GO_LIVE, values)},
        "audit": {"days": _list(session, _AUDIT_HEAD, {})},
    }


def _list(session: Session, statement: Any, values: dict[str, Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in session.execute(statement, values).mappings()]


_COPY = (
    "COPY certificate_leaf (certificate_id, number, external_account_number, leaf, entry, subtree) FROM STDIN"
)

# The account is read from its rows only, as in reconciliation.
_SELECTED = f"""
    process.external_account_number, account.service_account_number, CAST(side.sent AS text) AS sent,
    CASE WHEN side.sent = side.created THEN NULL ELSE CAST(side.created AS text) END AS created,
    {IS_NEW} AS is_new
"""
_OF_PROCESS = f"""
    CROSS JOIN LATERAL (
        SELECT * FROM account WHERE account_import_process_id = process.id OFFSET 0) AS account
    {JOIN_ORIGIN}
    CROSS JOIN LATERAL (
        SELECT jsonb_strip_nulls(process.payload) AS sent,
               jsonb_strip_nulls(CAST({created_account()} AS jsonb)) AS created OFFSET 0) AS side
"""
_PAGE = text(f"""
    SELECT process.external_account_number AS place, {_SELECTED}
    FROM (SELECT process.*
          FROM account_import_process AS process
          CROSS JOIN LATERAL (
              SELECT FROM account WHERE account_import_process_id = process.id OFFSET 0) AS made
          WHERE import_supplier_id = :import_supplier_id AND external_account_number > :after
          ORDER BY external_account_number LIMIT :limit) AS process {_OF_PROCESS}
    ORDER BY place
""")
#: The same for the accounts on the lines of a batch. An account on two lines counts on the first.
_PAGE_OF_BATCH = text(f"""
    SELECT process.line_number AS place, {_SELECTED}
    FROM (SELECT line.line_number, process.*
          FROM batch_line AS line
          CROSS JOIN LATERAL (
              SELECT * FROM account_import_process
              WHERE import_supplier_id = :import_supplier_id
                AND external_account_number = line.external_account_number OFFSET 0) AS process
          CROSS JOIN LATERAL (
              SELECT FROM account WHERE account_import_process_id = process.id OFFSET 0) AS made
          WHERE line.batch_id = :batch_id AND line.line_number > :after
            AND {IS_FIRST}
          ORDER BY line.line_number LIMIT :limit) AS process {_OF_PROCESS}
    ORDER BY place
""").bindparams(bindparam("batch_id", type_=Uuid))

_OPTIONAL_BATCH = bindparam("batch_id", type_=Uuid)
_EXCEPTIONS = text("""
    SELECT problem, exception.number, leaf.number AS account, reason, accepted_by, accepted_as, created_at
    FROM receipt_exception AS exception LEFT JOIN certificate_leaf AS leaf
      ON leaf.certificate_id = :certificate_id
     AND leaf.external_account_number = exception.external_account_number
    WHERE comparison_id = :comparison_id ORDER BY exception.id LIMIT :limit
""").bindparams(bindparam("comparison_id", type_=Uuid))
_ACKNOWLEDGEMENTS = text("""
    SELECT reason, acknowledged_by, count(*) AS number, min(acknowledged_at) AS first_at,
           max(acknowledged_at) AS last_at
    FROM acknowledgement
    WHERE import_supplier_id = :import_supplier_id
      AND (:batch_id IS NULL OR batch_id = :batch_id OR EXISTS (
          SELECT FROM batch_line WHERE batch_line.batch_id = :batch_id
            AND batch_line.external_account_number = acknowledgement.external_account_number OFFSET 0))
    GROUP BY reason, acknowledged_by ORDER BY reason, acknowledged_by LIMIT :limit
""").bindparams(_OPTIONAL_BATCH)
_APPROVALS = text("""
    SELECT plan_id, number, wave.name, wave.batch_id, wave.state, differing, open, reconciled_at, decided_by,
           decided_at, decision_reason
    FROM wave_plan JOIN wave ON plan_id = wave_plan.id
    WHERE import_supplier_id = :import_supplier_id AND (:batch_id IS NULL OR wave.batch_id = :batch_id)
    ORDER BY plan_id, number LIMIT :limit
""").bindparams(_OPTIONAL_BATCH)
_GO_LIVE = text("""
    SELECT id AS go_live_id, batch_id, live_at, decided_by, state, accounts, finished_at FROM go_live
    WHERE import_supplier_id = :import_supplier_id
      AND (:batch_id IS NULL OR batch_id IS NULL OR batch_id = :batch_id)
    ORDER BY id LIMIT :limit
""").bindparams(_OPTIONAL_BATCH)
#: The newest day of the audit that is sealed.
_AUDIT_HEAD = text("""
    SELECT day, encode(chain_sha256, 'hex') AS head FROM audit_day ORDER BY day DESC LIMIT 1
""")
