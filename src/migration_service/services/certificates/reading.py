"""Reading certificates: lists, the file, and the proof of one account."""

from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_payloads.files import certificates as format_
from migration_service import errors
from migration_service.models import Certificate, CertificateLeaf, ImportSupplier
from migration_service.services.certificates.making import read_subtrees
from migration_service.services.setup.suppliers import get_owned, list_owned

_COLUMNS = ("batch_id", "requested_by", "created_at", "finished_at", "accounts")
#: The leaves that are written together.
_PAGE = 1_000


def get_certificate(session: Session, certificate_id: str, *, organisation_id: int | None) -> Certificate:
    """Return the organisation's certificate. Raise CertificateNotFoundError."""
    return get_owned(session, Certificate, certificate_id, errors.CertificateNotFoundError, organisation_id)


def list_certificates(session: Session, **wanted: Any) -> list[dict[str, Any]]:
    """Return what is known of the certificates that `list_owned` finds."""
    return [describe_certificate(session, it) for it in list_owned(session, Certificate, **wanted)]


def describe_certificate(session: Session, certificate: Certificate) -> dict[str, Any]:
    """Return what is known of a certificate, by the names of the interface."""
    lines = (certificate.beginning or "").splitlines()
    return {
        "certificate_id": certificate.id,
        "import_supplier": session.get_one(ImportSupplier, certificate.import_supplier_id).code,
        "clean": msgspec.json.decode(lines[2])["clean"] if lines else None,
        "public_key": msgspec.json.decode(lines[1])["public_key"] if lines else None,
        **{name: getattr(certificate, name) for name in _COLUMNS},
    }


def require_finished(certificate: Certificate) -> bytes:
    """Return the lines before those of the accounts. Raise CertificateStateError before the end."""
    if certificate.beginning is None:
        raise errors.CertificateStateError
    return certificate.beginning.encode()


def stream_certificate(sessions: sessionmaker[Session], certificate: Certificate) -> Iterator[bytes]:
    """Yield the certificate as NDJSON. Each page of leaves is read in a separate transaction."""
    yield require_finished(certificate)
    for after in range(0, certificate.accounts, _PAGE):
        with sessions.begin() as session:
            leaves = _read_leaves(session, certificate, after, _PAGE)
        yield b"".join(format_.encode({"leaf": it.hex()}) + b"\n" for it in leaves)


def prove_account(session: Session, certificate: Certificate, number: str) -> bytes:
    """Return the proof that a certificate has an account, which tells nothing of any other.

    Raise AccountNotFoundError if it has not, AccountErasedError if the account was erased since, and
    CertificateStateError before the end of the certificate.
    """
    beginning = require_finished(certificate)
    own = CertificateLeaf.certificate_id == certificate.id
    leaf = session.scalars(
        select(CertificateLeaf).where(own, CertificateLeaf.external_account_number == number)
    ).first()
    if leaf is None:
        raise errors.AccountNotFoundError("The certificate has no such account.")
    if leaf.entry is None:
        raise errors.AccountErasedError("The account was erased, so nobody can prove any more what it was.")
    subtree, place = divmod(leaf.number - 1, format_.SUBTREE)
    beside = _read_leaves(session, certificate, subtree * format_.SUBTREE, format_.SUBTREE)
    path = [
        *format_.find_path(beside, place),
        *format_.find_path(read_subtrees(session, certificate), subtree),
    ]
    proof = {
        "part": "account",
        "number": leaf.number,
        "entry": msgspec.json.decode(leaf.entry),
        "path": [it.hex() for it in path],
    }
    return beginning + format_.encode(proof) + b"\n"


def _read_leaves(session: Session, certificate: Certificate, after: int, limit: int) -> list[bytes]:
    own = select(CertificateLeaf.leaf).where(
        CertificateLeaf.certificate_id == certificate.id, CertificateLeaf.number > after
    )
    return [*session.scalars(own.order_by(CertificateLeaf.number).limit(limit))]
