"""Adding notes to an account (sections 2.6 and 4.8).

A note is the same as one on the account if its body is the same. If it has a created_at, that must be the
same too. If it has no body, the document paths are compared instead.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from migration_service.db.base import one_of
from migration_service.errors import (
    AccountNotFoundError,
    ErrorItem,
    ImportSupplierNotFoundError,
    ImportSupplierNotFoundInBodyError,
)
from migration_service.models import Note
from migration_service.origin import current_origin
from migration_service.rules.notes import NOT_TAKEN, check_note
from migration_service.schemas.json import encode_json
from migration_service.schemas.moments import write_moment
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
    #: It was on the account already.
    ALREADY_EXISTS = "NOTE_ALREADY_EXISTS"


@dataclass(frozen=True, slots=True)
class NoteResult:
    """The result for one posted note: the time of the note that is on the account now, and its body."""

    created_at: datetime
    body: str | None
    status: NoteStatus
    #: Warnings for what the posted note has and the existing one does not. It was not added.
    warnings: list[ErrorItem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the response (section 4.8). It has `warnings` only if there are any."""
        entry = {"created_at": write_moment(self.created_at), "body": self.body, "status": self.status}
        return entry | ({"warnings": [it.to_dict() for it in self.warnings]} if self.warnings else {})


@dataclass(frozen=True, slots=True)
class _Content:
    """What a note on the account has besides its body and its time."""

    document_paths: frozenset[str]
    is_pinned: bool
    unpin_at: datetime | None


#: The notes that are the same as a posted one, by their times.
_Same = dict[datetime, _Content]


def add_notes(session: Session, caller: Caller, body: PostedBody) -> list[NoteResult]:
    """Add the notes that are not on the account yet. Return one result for each note, in their order.

    `body.data` is what `schemas.added_data.NotesRequest` loads. Raise ImportSupplierNotFoundError,
    AccountNotFoundError, or RequestFailedValidationError if the supplier is strict and a note has warnings.
    """
    try:
        account = open_account(session, caller, body, missing=AccountNotFoundError)
    except ImportSupplierNotFoundInBodyError as error:
        # Section 4.8 answers 404 for both numbers, though they are in the body.
        raise ImportSupplierNotFoundError(errors=error.errors) from None
    now = _now()
    notes = body.data["notes"]
    findings = (finding for i, note in enumerate(notes) for finding in check_note(note, now, i))
    raise_findings(findings, account)
    return write_notes(session, account, notes, now)


def write_notes(
    session: Session, account: OpenAccount, notes: list[dict[str, Any]], now: datetime | None = None
) -> list[NoteResult]:
    """Add notes to an account that the caller has locked, as `add_notes` does."""
    known = _find_same(session, account, notes)
    now = now or _now()
    rows, results = [], []
    for index, note in enumerate(notes):
        same = known.setdefault(_sameness(note), {})
        created_at = note.get("created_at")
        warnings = []
        if bool(same) if created_at is None else created_at in same:
            status = NoteStatus.ALREADY_EXISTS
            created_at = created_at or min(same)
            warnings = _not_taken(note, same[created_at], index)
        else:
            status = NoteStatus.CREATED
            created_at = created_at or now
            same[created_at] = _content(note)
            rows.append(_row(account, note, created_at))
        results.append(NoteResult(created_at, note.get("body"), status, warnings))
    if rows:
        session.execute(insert(Note), rows)
    return results


def read_notes(session: Session, account_pk: int) -> list[dict[str, Any]]:
    """Return the notes of an account as the support page shows them: the pinned ones first, then by time."""
    now = datetime.now(UTC)
    found = session.scalars(
        select(Note).where(Note.account_pk == account_pk).order_by(Note.created_at, Note.id)
    )
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
    # In whole seconds, as the interface writes times: a client that sends one back means the same note.
    return datetime.now(UTC).replace(microsecond=0)


def _sameness(note: dict[str, Any]) -> bytes:
    if body := note.get("body"):
        return sha256(b"body" + body.encode()).digest()
    paths = sorted(document["document_path"] for document in note["document_paths"])
    return sha256(b"paths" + encode_json(paths)).digest()


def _find_same(session: Session, account: OpenAccount, notes: list[dict[str, Any]]) -> dict[bytes, _Same]:
    """Return the notes on the account that are the same as one of these, by what makes them the same."""
    found = session.execute(
        select(Note.sameness_sha256, Note.created_at, Note.documents, Note.is_pinned, Note.unpin_at).where(
            Note.account_pk == account.id,
            one_of(Note.sameness_sha256.expression, {_sameness(note) for note in notes}),
        )
    )
    known: dict[bytes, _Same] = {}
    for row in found:
        paths = frozenset(document["document_path"] for document in row.documents)
        content = _Content(paths, row.is_pinned, row.unpin_at)
        known.setdefault(row.sameness_sha256, {})[row.created_at] = content
    return known


def _content(note: dict[str, Any]) -> _Content:
    paths = frozenset(document["document_path"] for document in note.get("document_paths", ()))
    return _Content(paths, note.get("is_pinned", False), note.get("unpin_at"))


def _not_taken(note: dict[str, Any], existing: _Content, index: int) -> list[ErrorItem]:
    """Return a warning for each part of a posted note that the existing note does not have."""
    posted = _content(note)
    lost = {
        "document_paths": not posted.document_paths <= existing.document_paths,
        "is_pinned": "is_pinned" in note and posted.is_pinned != existing.is_pinned,
        "unpin_at": "unpin_at" in note and posted.unpin_at != existing.unpin_at,
    }
    return [
        ErrorItem(
            NOT_TAKEN, f"The note already exists, and its {name} was not changed.", f"notes.{index}.{name}"
        )
        for name, is_lost in lost.items()
        if is_lost
    ]


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
