"""What holds events back is found by its name."""

from unittest.mock import Mock

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.doctor import work_checks
from migration_service.doctor.diagnosis import Verdict
from migration_service.doctor.work_checks import check_events
from migration_service.schemas.events import EventType
from migration_service.services.events.horizon import find_holder
from migration_service.services.events.recording import record
from support.factories import Customer
from support.servers import EmbeddedServers


def test_nothing_holds_events_back_but_a_transaction_that_writes(sessions: sessionmaker[Session]) -> None:
    with sessions() as reading:
        reading.execute(text("SELECT FROM organisation"))
        with sessions.begin() as session:
            session.execute(text("SELECT pg_current_xact_id()"))
            assert find_holder(session) is None


@pytest.mark.parametrize("as_superuser", [False, True])
def test_the_doctor_names_the_session_that_holds_events_back(
    sessions: sessionmaker[Session],
    embedded_servers: EmbeddedServers,
    monkeypatch: pytest.MonkeyPatch,
    customer: Customer,
    as_superuser: bool,
) -> None:
    monkeypatch.setattr(work_checks, "_HELD_SECONDS", 0.0)
    parts = Mock(sessions=sessions)
    url = embedded_servers.database_url
    others = embedded_servers.connect_as_superuser() if as_superuser else psycopg.connect(url)
    with others as connection:
        connection.execute("SET application_name = 'a person'")
        connection.commit()
        connection.execute("BEGIN")
        connection.execute("SELECT pg_current_xact_id()")
        # When the transaction of a superuser began is nobody's business, but an event that waits for it is.
        with sessions.begin() as session:
            record(session, EventType.BATCH_ENDED, {}, organisation_id=customer.organisation_id)
        (finding,) = check_events(parts)
        pid = connection.info.backend_pid
        assert finding.verdict is Verdict.WARNING
        assert (
            f"session {pid} (a person) of role {'postgres' if as_superuser else 'migration_service'}"
            in finding.seen
        )
        assert "those of the last 0 s" in finding.seen
        assert f"SELECT pg_terminate_backend({pid})" in finding.advice
        connection.execute("COMMIT")
    (finding,) = check_events(parts)
    assert finding.verdict is Verdict.OK
