"""Moving an organisation to another cell: closed, copied, verified, switched, opened.

    1. The source closes it, pauses its batches, and waits until nothing of it is under way.
    2. One transaction of the target removes what an earlier run has left, copies everything from one snapshot
       of the source, and compares each table. There the organisation is closed, too.
    3. The source makes sure that nothing was written since, and records the new address. The target commits
       just before it.
    4. The target opens it, and resumes its batches.

A run that is killed before the third step has changed nothing but the closing, and is repeated from the
beginning. After it, a repetition only opens the target. `reopen_organisation` is the way back until then.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.db.base import literals, new_id
from migration_service.db.cells import read_cell
from migration_service.db.reference import wait_until_known
from migration_service.errors import OrganisationMovingError, OrganisationNotMovableError
from migration_service.models import Organisation
from migration_service.services.audit.chain import hash_moved_days
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.batches.states import OPEN
from migration_service.services.cells.copying import KEPT, Copying, count_late_writes, remove_rows
from migration_service.services.cells.ownership import find_strays
from migration_service.services.setup.organisations import get_organisation
from migration_service.states import BatchState, ChunkState, ImportState

#: Seconds for which a move waits until nothing of the organisation is under way.
QUIET_WITHIN = 120.0
_PAUSE = 0.2

Sessions = sessionmaker[Session]


@dataclass(frozen=True, slots=True)
class Move:
    """A finished move."""

    organisation: str
    moved_to: str
    #: The number of rows by table. None if an earlier run has copied them.
    rows: dict[str, int] | None


def move_organisation(
    source: Sessions,
    target: Sessions,
    name: str,
    address: str,
    told: Callable[[str, int], None] = lambda _table, _rows: None,
) -> Move:
    """Move an organisation to the database of `target`, whose clients reach it at `address`.

    `told` is called for each copied table, with its number of rows. Raise OrganisationNotFoundError, and
    OrganisationNotMovableError with the reason: it is then open again where it was.
    """
    with source.begin() as session:
        organisation = get_organisation(session, name)
        organisation_id, moved_to = organisation.id, organisation.moved_to
    if moved_to not in (None, address):
        raise OrganisationNotMovableError(f"Organisation {name!r} was moved to {moved_to} before.")
    rows = None
    if moved_to is None:
        _require_cells(source, target, organisation_id)
        _close(source, organisation_id)
        try:
            rows = _copy_and_switch(source, target, organisation_id, address, told)
        except BaseException:
            reopen_organisation(source, name)
            raise
    _open(target, organisation_id)
    return Move(name, address, rows)


def reopen_organisation(sessions: Sessions, name: str) -> None:
    """Open an organisation whose move was abandoned. Raise OrganisationNotMovableError if it has moved."""
    with sessions.begin() as session:
        organisation = get_organisation(session, name)
        session.refresh(organisation, with_for_update=True)
        if organisation.moved_to is not None:
            raise OrganisationNotMovableError(
                f"Organisation {name!r} was moved to {organisation.moved_to}. Move it back from there."
            )
        _open_here(session, organisation, AuditAction.ORGANISATION_REOPENED)


def remove_moved_organisation(sessions: Sessions, name: str) -> int:
    """Remove the rows of an organisation that was moved away, and return their number.

    Its keys, which tell clients where it is, and its audit stay. Each piece is committed: repeating it goes
    on. Raise OrganisationNotFoundError, and OrganisationNotMovableError if it was not moved.
    """
    with sessions.begin() as session:
        organisation = get_organisation(session, name)
        if organisation.moved_to is None:
            raise OrganisationNotMovableError(f"Organisation {name!r} was not moved. Nothing was removed.")
        organisation_id = organisation.id
    removed = 0
    with sessions() as session:
        for piece in remove_rows(session, organisation_id, kept=KEPT):
            session.commit()
            removed += piece
        action = AuditAction.ORGANISATION_REMOVED
        details = {"rows": removed}
        record(session, action, "organisation", name, organisation_id=organisation_id, details=details)
        session.commit()
    return removed


def list_closed_organisations(session: Session) -> Sequence[tuple[str, datetime]]:
    """Return the names of the organisations that are closed for a move, and since when."""
    closed = (Organisation.closed_at.is_not(None), Organisation.moved_to.is_(None))
    rows = session.execute(select(Organisation.name, Organisation.closed_at).where(*closed))
    return [(row.name, row.closed_at) for row in rows]


def map_keys(session: Session) -> list[str]:
    """Return the prefixes of the API keys whose organisations are in this cell, in order."""
    return list(session.scalars(_PREFIXES))


def _require_cells(source: Sessions, target: Sessions, organisation_id: int) -> None:
    with source() as here, target() as there:
        versions = [session.scalar(_REVISION) for session in (here, there)]
        if versions[0] != versions[1]:
            raise OrganisationNotMovableError(
                f"The tables of the cells are at revisions {versions[0]} and {versions[1]}. Upgrade one."
            )
        if read_cell(here.connection()) == read_cell(there.connection()):
            raise OrganisationNotMovableError(
                "Both databases have the same cell number, so their ids would meet. A cell gets its number "
                "before its first organisation: migration-service revisions number-cell NUMBER"
            )
        taken = there.execute(_TAKEN, _names(here, organisation_id)).scalars().all()
        if taken:
            raise OrganisationNotMovableError(f"The target cell has these already: {', '.join(taken)}.")


def _names(session: Session, organisation_id: int) -> dict[str, Any]:
    row = session.execute(_NAMES, {"id": organisation_id}).one()
    return {"id": organisation_id, "name": row.name, "codes": row.codes}


def _close(sessions: Sessions, organisation_id: int) -> None:
    """Close an organisation for writing, and pause its batches. A closed one stays so."""
    with sessions.begin() as session:
        organisation = session.get_one(Organisation, organisation_id, with_for_update=True)
        if organisation.closed_at is None:
            action = AuditAction.ORGANISATION_CLOSED
            record(session, action, "organisation", organisation.name, organisation_id=organisation_id)
            session.flush()
        session.execute(_CLOSE, {"id": organisation_id})
        session.execute(_PAUSE_BATCHES, {"id": organisation_id, "reason": OrganisationMovingError.code})
        session.execute(_TAKE_BACK_CHUNKS, {"id": organisation_id})
    wait_until_known()


def _copy_and_switch(
    source: Sessions,
    target: Sessions,
    organisation_id: int,
    address: str,
    told: Callable[[str, int], None],
) -> dict[str, int]:
    quiet_since = _wait_until_quiet(source, organisation_id)
    move_id = new_id()
    with _unhurried(source, "REPEATABLE READ") as here, _unhurried(target) as there:
        for _ in remove_rows(there, organisation_id):
            pass
        if strays := find_strays(here.connection(), organisation_id):
            raise OrganisationNotMovableError(f"It has rows of another organisation: {', '.join(strays)}.")
        copying = Copying(here, there, organisation_id, read_cell(there.connection()), move_id)
        rows = copying.copy(told)
        name = here.get_one(Organisation, organisation_id).name
        _record_arrival(there, organisation_id, name, move_id, rows)
        with _unhurried(source) as switch:
            late = count_late_writes(switch, organisation_id, quiet_since)
            if late:
                raise OrganisationNotMovableError(
                    f"These tables were written to while they were copied: {', '.join(late)}. "
                    "Nothing was moved: repeat the command."
                )
            if not switch.scalar(_SWITCH, {"id": organisation_id, "address": address}):
                raise OrganisationNotMovableError("It was opened or moved by somebody else meanwhile.")
            action, details = AuditAction.ORGANISATION_MOVED_OUT, {"to": address, "move": str(move_id)}
            record(switch, action, "organisation", name, organisation_id=organisation_id, details=details)
            switch.flush()
            there.commit()
            switch.commit()
    return rows


def _wait_until_quiet(sessions: Sessions, organisation_id: int) -> int:
    """Wait until nothing of the organisation is under way, and return a transaction id from then.

    Every transaction that had begun before has ended: it can write nothing any more.
    """
    until = time.monotonic() + QUIET_WITHIN
    with sessions() as session:
        while busy := session.execute(_BUSY, {"id": organisation_id}).scalars().all():
            _give_up_after(until, f"still has {', '.join(busy)}")
            session.rollback()
        since: int = session.scalar(text("SELECT pg_current_xact_id()::text::bigint")) or 0
        session.commit()
        while not session.scalar(_ALL_ENDED, {"since": since}):
            _give_up_after(until, "waits for a transaction that is older than its closing")
            session.rollback()
    return since


def _give_up_after(until: float, why: str) -> None:
    if time.monotonic() > until:
        raise OrganisationNotMovableError(
            f"After {QUIET_WITHIN:.0f} seconds the organisation {why}. It is open again: try again later."
        )
    time.sleep(_PAUSE)


def _record_arrival(
    session: Session, organisation_id: int, name: str, move_id: UUID, rows: dict[str, int]
) -> None:
    details = {
        "move": str(move_id),
        "rows": sum(rows.values()),
        "days": hash_moved_days(session, move_id),
    }
    record(
        session,
        AuditAction.ORGANISATION_MOVED_IN,
        "organisation",
        name,
        organisation_id=organisation_id,
        details=details,
    )
    session.flush()


def _open(sessions: Sessions, organisation_id: int) -> None:
    with sessions.begin() as session:
        organisation = session.get_one(Organisation, organisation_id, with_for_update=True)
        _open_here(session, organisation, None)


def _open_here(session: Session, organisation: Organisation, action: AuditAction | None) -> None:
    if organisation.closed_at is None:
        return
    if action:
        record(session, action, "organisation", organisation.name, organisation_id=organisation.id)
    organisation.closed_at = None
    session.flush()
    session.execute(_RESUME_BATCHES, {"id": organisation.id, "reason": OrganisationMovingError.code})


@contextmanager
def _unhurried(sessions: Sessions, isolation_level: str = "READ COMMITTED") -> Iterator[Session]:
    """Open a transaction without time-outs, which is rolled back unless it is committed in the block."""
    with sessions() as session:
        session.connection(execution_options={"isolation_level": isolation_level})
        session.execute(
            text("SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0")
        )
        yield session


_REVISION = text("SELECT version_num FROM alembic_version")
_NAMES = text("""
    SELECT name, ARRAY(SELECT code FROM import_supplier WHERE organisation_id = :id) AS codes
    FROM organisation WHERE id = :id
""")
_TAKEN = text("""
    SELECT 'organisation ' || name FROM organisation WHERE name = :name AND id <> :id
    UNION ALL
    SELECT 'import supplier ' || code FROM import_supplier
    WHERE code = ANY (:codes) AND organisation_id <> :id
    UNION ALL
    SELECT 'organisation ' || name || ', which is in use there' FROM organisation
    WHERE id = :id AND closed_at IS NULL
""")
_CLOSE = text("UPDATE organisation SET closed_at = now() WHERE id = :id AND closed_at IS NULL")
_PAUSE_BATCHES = text(f"""
    UPDATE batch SET state = '{BatchState.PAUSED}', reason = :reason
    WHERE organisation_id = :id AND finished_at IS NULL AND state IN ({literals(OPEN)})
""")
_TAKE_BACK_CHUNKS = text(f"""
    UPDATE batch_chunk SET state = '{ChunkState.PENDING}'
    WHERE state = '{ChunkState.DISPATCHED}' AND attempts IS NULL
      AND batch_id IN (SELECT id FROM batch WHERE organisation_id = :id AND finished_at IS NULL)
""")
_RESUME_BATCHES = text(f"""
    UPDATE batch SET state = '{BatchState.RUNNING}', reason = NULL, runs_since = now()
    WHERE organisation_id = :id AND state = '{BatchState.PAUSED}' AND reason = :reason
""")
_BUSY = text(f"""
    SELECT 'accounts in progress' WHERE EXISTS (
        SELECT FROM account_import_process AS process
        JOIN import_supplier AS supplier ON supplier.id = process.import_supplier_id
        WHERE process.state = '{ImportState.IN_PROGRESS}' AND supplier.organisation_id = :id)
    UNION ALL
    SELECT 'lines of batches with workers' WHERE EXISTS (
        SELECT FROM batch_chunk WHERE state = '{ChunkState.DISPATCHED}'
          AND batch_id IN (SELECT id FROM batch WHERE organisation_id = :id AND finished_at IS NULL))
    UNION ALL
    SELECT 'undos that are not over' WHERE EXISTS (
        SELECT FROM undo WHERE organisation_id = :id AND finished_at IS NULL)
""")
_ALL_ENDED = text("""
    SELECT CAST(pg_snapshot_xmin(pg_current_snapshot())::text AS bigint) > :since
""")
_SWITCH = text("""
    UPDATE organisation SET moved_to = :address
    WHERE id = :id AND closed_at IS NOT NULL AND moved_to IS NULL RETURNING id
""")
_PREFIXES = text("""
    SELECT prefix FROM api_key JOIN organisation ON organisation.id = api_key.organisation_id
    WHERE moved_to IS NULL AND revoked_at IS NULL ORDER BY prefix
""")
