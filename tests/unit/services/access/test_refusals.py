"""Refusals: each is counted, and the audit has a bounded number of them with everything that is known."""

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.errors import PermissionDeniedError, UnauthenticatedError
from migration_service.models import AuditEntry
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access import refusals
from migration_service.services.access.refusals import RefusalLog
from support.servers import EmbeddedServers


def _refuse(log: RefusalLog, number: int) -> None:
    """Refuse the token of a request from the address with this number."""
    with acting_as(Origin(kind=ActorKind.UNKNOWN, address=f"192.0.2.{number}")):
        log.note_refused_request(UnauthenticatedError())


def _noted(sessions: sessionmaker[Session], *numbers: int) -> list[AuditEntry]:
    """Return the entries of these addresses."""
    addresses = [f"192.0.2.{number}" for number in numbers]
    with sessions() as session:
        found = select(AuditEntry).where(AuditEntry.address.in_(addresses)).order_by(AuditEntry.id)
        return list(session.scalars(found))


def test_an_entry_has_all_that_is_known_of_who_was_refused(sessions: sessionmaker[Session]) -> None:
    log = RefusalLog(sessions)
    key = Origin(
        kind=ActorKind.API_KEY, actor="ami_known", organisation_id=7, address="192.0.2.1", request_id="r-1"
    )
    with acting_as(key):
        log.note_refused_request(PermissionDeniedError())
    with acting_as(Origin(kind=ActorKind.UNKNOWN, address="192.0.2.2", request_id="r-2")):
        log.note_refused_login(UnauthenticatedError(), "ami_tried")
    fields = ("actor_kind", "actor", "organisation_id", "request_id", "action", "outcome", "code", "details")
    assert [[getattr(it, name) for name in fields] for it in _noted(sessions, 1, 2)] == [
        ["api_key", "ami_known", 7, "r-1", "permission.refused", "REFUSED", "permission_denied", None],
        ["unknown", "ami_tried", None, "r-2", "login.refused", "REFUSED", "failed_login", None],
    ]


def test_all_processes_together_note_so_many_refusals_of_a_minute(
    sessions: sessionmaker[Session], embedded_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is to come counts for this minute, whenever that ends. Only the owner of the table can write it.
    with psycopg.connect(embedded_servers.owner_url) as owner:
        owner.execute("ALTER TABLE audit_entry DISABLE TRIGGER audit_guard")
        owner.execute("""
            INSERT INTO audit_entry (at, actor_kind, action, outcome)
            SELECT now() + distance, 'unknown', 'token.refused', outcome
            FROM (VALUES (interval '1h', 'REFUSED', 2), ('-1h', 'REFUSED', 9), ('1h', 'DONE', 9))
                     AS it (distance, outcome, number),
                 generate_series(1, number)
        """)
        owner.execute("ALTER TABLE audit_entry ENABLE TRIGGER audit_guard")
    monkeypatch.setattr(refusals, "MOST_A_MINUTE", 3)
    _refuse(RefusalLog(sessions), 1)
    monkeypatch.setattr(refusals, "MOST_A_MINUTE", 2)
    _refuse(RefusalLog(sessions), 2)
    assert [it.address for it in _noted(sessions, 1, 2)] == ["192.0.2.1"]
