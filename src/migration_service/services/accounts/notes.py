"""Adding notes to an account (sections 2.6 and 4.8).

Notes with the same body are the same, whatever ends its lines. If the posted note has a created_at, that must
match too, to the second, because answers show no fractions. Notes without a body are compared by their
document paths.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

from sqlalchemy import ARRAY, BigInteger, LargeBinary, bindparam, insert, select, text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_payloads.profile import Profile
from migration_payloads.rules.added_data import NOT_TAKEN, check_note
from migration_payloads.schemas.json import encode_json
from migration_service import errors
from migration_service.models import Note
from migration_service.origin import current_origin
from migration_service.services.access.callers import Caller
from migration_service.services.accounts import added_data
from migration_service.services.setup.suppliers import KnownSupplier


class NoteStatus(StrEnum):
    """The status of a posted note (section 3.3)."""

    #: The note was added to the account.
    CREATED = "NOTE_CREATION_SUCCESS"
    #: The note existed on the account already.
    ALREADY_EXISTS = "NOTE_ALREADY_EXISTS"


@dataclass(frozen=True, slots=True)
class NoteResult:
    """The result for one posted note: the body and time of the note that is now on the account."""

    created_at: datetime
    body: str | None
    status: NoteStatus
    #: Warnings about parts of the posted note that the existing note lacks. They were not added.
    warnings: list[errors.ErrorItem] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the response (section 4.8), with `warnings` only if there are any."""
        entry = {"created_at": write_moment(self.created_at), "body": self.body, "status": self.status}
        return entry | ({"warnings": [it.to_dict() for it in self.warnings]} if self.warnings else {})


@dataclass(frozen=True, slots=True)
class _Content:
    """The contents of an existing note besides its body and time."""

    document_paths: frozenset[str]
    is_pinned: bool
    unpin_at: datetime | None


#: The existing notes that are the same as a posted one, by time in whole seconds.
_Same = dict[datetime, _Content]


def add_notes(session: Session, caller: Caller, body: added_data.PostedBody) -> added_data.Accepted:
    """Add the notes that are not on the account yet. Return an entry for each note, in order.

    `body.data` is loaded by `schemas.added_data.NotesRequest`. Raise ImportSupplierNotFoundError,
    AccountNotFoundError, or RequestFailedValidationError if the supplier is strict and a note has warnings.
    """
    try:
        account = added_data.open_account(session, caller, body, missing=errors.AccountNotFoundError)
    except errors.ImportSupplierNotFoundInBodyError as error:
        # Section 4.8 requires 404 for the supplier and the account, although both are in the body.
        raise errors.ImportSupplierNotFoundError(errors=error.errors) from None
    checked = check_notes(body, *added_data.terms_of(account.supplier))
    checked.raise_errors()
    (results,) = add_notes_to_accounts(session, [(account, body.data["notes"])])
    warnings = [warning for note in results for warning in note.warnings]
    return added_data.Accepted([note.to_dict() for note in results], checked.warnings + warnings)


def check_notes(body: added_data.PostedBody, profile: Profile, _today: date) -> added_data.Checked:
    """Return the findings of schema and rules in the notes of a body."""
    now = _now()
    faulty = {".".join((error.attr or "").split(".")[:2]) for error in body.errors}
    findings = [
        finding
        for i, note in enumerate(body.data.get("notes", ()))
        if f"notes.{i}" not in faulty
        for finding in check_note(note, now, i)
    ]
    return added_data.check_body(body, findings, profile)


def add_notes_to_accounts(
    session: Session, posted: Sequence[tuple[added_data.OpenAccount, list[dict[str, Any]]]]
) -> list[list[NoteResult]]:
    """Add the notes that the accounts do not have yet. Return the results of each addition.

    The caller must have locked the accounts and checked the rules. Additions to one account are made in
    order.
    """
    books = _Books(
        session, {(account.id, hash_sameness(note)) for account, notes in posted for note in notes}
    )
    results = [[books.take(account, it, i) for i, it in enumerate(notes)] for account, notes in posted]
    if books.rows:
        session.execute(insert(Note), books.rows)
    return results


class _Books:
    """The existing notes that are the same as posted ones, and the rows of the new ones."""

    def __init__(self, session: Session, posted: Collection[tuple[int, bytes]]) -> None:
        self._known = _find_same(session, posted)
        self._now = _now()
        self.rows: list[dict[str, Any]] = []

    def take(self, account: added_data.OpenAccount, note: dict[str, Any], index: int) -> NoteResult:
        """Return the result for a note and remember the note. `index` is its position in the body."""
        sameness = hash_sameness(note)
        same = self._known.setdefault((account.id, sameness), {})
        created_at = note.get("created_at")
        second = created_at and created_at.replace(microsecond=0)
        if bool(same) if second is None else second in same:
            created_at = second or min(same)
            warnings = _not_taken(note, same[created_at], index)
            return NoteResult(created_at, note.get("body"), NoteStatus.ALREADY_EXISTS, warnings)
        created_at = created_at or self._now
        same[created_at.replace(microsecond=0)] = _content(note)
        self.rows.append(_row(account, note, created_at, sameness))
        return NoteResult(created_at, note.get("body"), NoteStatus.CREATED)


def read_notes(session: Session, account_pk: int) -> list[dict[str, Any]]:
    """Return the notes of an account in the order of the support page: pinned ones first, then by time."""
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
    # In whole seconds, as in responses, so that a time sent back by a client matches the same note.
    return datetime.now(UTC).replace(microsecond=0)


def hash_sameness(note: dict[str, Any]) -> bytes:
    """Return a hash that is equal for notes that are the same, except for their created_at."""
    if body := note.get("body"):
        body = body.replace("\r\n", "\n").replace("\r", "\n")
        return sha256(b"body" + body.encode()).digest()
    return sha256(b"paths" + encode_json(sorted_paths(note))).digest()


def sorted_paths(note: dict[str, Any]) -> list[str]:
    """Return the document paths of a note, without a leading slash."""
    return sorted(_paths(note["document_paths"]))


def _paths(documents: Iterable[dict[str, str]]) -> list[str]:
    return [document["document_path"].removeprefix("/") for document in documents]


def _find_same(session: Session, notes: Collection[tuple[int, bytes]]) -> dict[tuple[int, bytes], _Same]:
    """Return the existing notes that are the same as these, by account and hash."""
    values = {"accounts": [account for account, _ in notes], "hashes": [sameness for _, sameness in notes]}
    known: dict[tuple[int, bytes], _Same] = {}
    for row in session.execute(_SAME, values):
        content = _Content(frozenset(_paths(row.documents)), row.is_pinned, row.unpin_at)
        known.setdefault((row.account_pk, bytes(row.sameness_sha256)), {})[
            row.created_at.replace(microsecond=0)
        ] = content
    return known


_SAME = text("""
    SELECT account_pk, sameness_sha256, created_at, documents, is_pinned, unpin_at
    FROM unnest(:accounts, :hashes) AS posted (account_pk, sameness_sha256)
    JOIN note USING (account_pk, sameness_sha256)
""").bindparams(bindparam("accounts", type_=ARRAY(BigInteger)), bindparam("hashes", type_=ARRAY(LargeBinary)))


def _content(note: dict[str, Any]) -> _Content:
    paths = frozenset(_paths(note.get("document_paths", ())))
    return _Content(paths, note.get("is_pinned", False), note.get("unpin_at"))


def _not_taken(note: dict[str, Any], existing: _Content, index: int) -> list[errors.ErrorItem]:
    """Return a warning for each part of a posted note that the existing note lacks."""
    posted = _content(note)
    lost = {
        "document_paths": not posted.document_paths <= existing.document_paths,
        "is_pinned": "is_pinned" in note and posted.is_pinned != existing.is_pinned,
        "unpin_at": "unpin_at" in note and posted.unpin_at != existing.unpin_at,
    }
    return [
        errors.ErrorItem(
            NOT_TAKEN, f"The note already exists, and its {name} was not changed.", f"notes.{index}.{name}"
        )
        for name, is_lost in lost.items()
        if is_lost
    ]


def _row(
    account: added_data.OpenAccount, note: dict[str, Any], created_at: datetime, sameness: bytes
) -> dict[str, Any]:
    return {
        "account_pk": account.id,
        "body": note.get("body"),
        "documents": _documents(account.supplier, note),
        "created_at": created_at,
        "is_pinned": note.get("is_pinned", False),
        "unpin_at": note.get("unpin_at"),
        "sameness_sha256": sameness,
        **current_origin().trace(),
    }


def _documents(supplier: KnownSupplier, note: dict[str, Any]) -> list[dict[str, str]]:
    paths = [document["document_path"] for document in note.get("document_paths", ())]
    return [
        {"document_path": it, "document_location": added_data.resolve_document(supplier, it)} for it in paths
    ]
