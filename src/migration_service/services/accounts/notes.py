"""Adding notes to an account (sections 2.6 and 4.8).

A note is the same as one on the account if its body is the same and, where it comes with a created_at, that
too. Without a body the document paths take its place.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import AccountNotFoundError
from migration_service.models import Note
from migration_service.origin import current_origin
from migration_service.rules.notes import check_note
from migration_service.schemas.json import encode_json
from migration_service.services.access.tokens import Caller
from migration_service.services.accounts.added_data import (
    OpenAccount,
    PostedBody,
    open_account,
    raise_findings,
    resolve_document,
)
from migration_service.services.setup.suppliers import KnownSupplier


class NoteStatus(StrEnum):
    """What became of a posted note (section 3.3)."""

    #: It is on the account now.
    CREATED = "NOTE_CREATION_SUCCESS"
    #: It was there already.
    ALREADY_EXISTS = "NOTE_ALREADY_EXISTS"


@dataclass(frozen=True, slots=True)
class NoteResult:
    """One posted note: the moment of the note that is on the account now, and its body."""

    created_at: datetime
    body: str | None
    status: NoteStatus


def add_notes(session: Session, caller: Caller, body: PostedBody) -> list[NoteResult]:
    """Add the notes that are not on the account yet; one result for each, in their order.

    `body.data` is what `schemas.added.NotesRequest` loads. Raises ImportSupplierNotFoundInBodyError,
    AccountNotFoundError, and RequestFailedValidationError where a strict supplier's notes have warnings.
    """
    account = open_account(session, caller, body, missing=AccountNotFoundError)
    now = _now()
    notes = body.data["notes"]
    findings = (finding for i, note in enumerate(notes) for finding in check_note(note, now, i))
    raise_findings(findings, account)
    return write_notes(session, account, notes, now)


def write_notes(
    session: Session, account: OpenAccount, notes: list[dict[str, Any]], now: datetime | None = None
) -> list[NoteResult]:
    """Add notes to an account that the caller has locked; see `add_notes`."""
    moments = _find_moments(session, account, notes)
    now = now or _now()
    rows, results = [], []
    for note in notes:
        same = moments.setdefault(_sameness(note), set())
        created_at = note.get("created_at")
        exists = bool(same) if created_at is None else created_at in same
        if exists:
            status = NoteStatus.ALREADY_EXISTS
            created_at = created_at or min(same)
        else:
            status = NoteStatus.CREATED
            created_at = created_at or now
            same.add(created_at)
            rows.append(_row(account, note, created_at))
        results.append(NoteResult(created_at, note.get("body"), status))
    if rows:
        session.execute(insert(Note), rows)
    return results


def read_notes(session: Session, account_pk: int) -> list[dict[str, Any]]:
    """The notes of an account, the pinned ones first, then by their moments: as the support page has them."""
    now = datetime.now(UTC)
    found = session.scalars(select(Note).where(Note.account_pk == account_pk).order_by(Note.created_at))
    notes = [
        {
            "body": note.body,
            "documents": note.documents,
            "created_at": note.created_at,
            "is_pinned": note.is_pinned and (note.unpin_at is None or note.unpin_at > now),
            "unpin_at": note.unpin_at,
        }
        for note in found
    ]
    return sorted(notes, key=lambda note: not note["is_pinned"])


def _now() -> datetime:
    # Whole seconds, as the interface writes moments: a client that sends ours back means the same note.
    return datetime.now(UTC).replace(microsecond=0)


def _sameness(note: dict[str, Any]) -> bytes:
    if body := note.get("body"):
        return sha256(b"body" + body.encode()).digest()
    paths = sorted(document["document_path"] for document in note["document_paths"])
    return sha256(b"paths" + encode_json(paths)).digest()


def _find_moments(
    session: Session, account: OpenAccount, notes: list[dict[str, Any]]
) -> dict[bytes, set[datetime]]:
    """When each of the notes that are the same as one of these was created."""
    found = session.execute(
        select(Note.sameness_sha256, Note.created_at).where(
            Note.account_pk == account.id,
            one_of(Note.sameness_sha256.expression, {_sameness(note) for note in notes}),
        )
    )
    moments: dict[bytes, set[datetime]] = {}
    for sameness, created_at in found:
        moments.setdefault(sameness, set()).add(created_at)
    return moments


def _row(account: OpenAccount, note: dict[str, Any], created_at: datetime) -> dict[str, Any]:
    return {
        "account_pk": account.id,
        "body": note.get("body"),
        "documents": _documents(account.supplier, note),
        "created_at": created_at,
        "is_pinned": note.get("is_pinned", False),
        "unpin_at": note.get("unpin_at"),
        "sameness_sha256": _sameness(note),
        **current_origin().trace(),
    }


def _documents(supplier: KnownSupplier, note: dict[str, Any]) -> list[dict[str, str]]:
    paths = [document["document_path"] for document in note.get("document_paths", ())]
    return [{"document_path": it, "document_location": resolve_document(supplier, it)} for it in paths]
