"""Pages that take longer begin, and end when their browser has gone."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.console.pages import audit
from migration_service.blueprints.requests import places
from migration_service.services.audit import trail
from migration_service.services.reconciliation import submitted
from migration_service.services.undo import starting
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, text_of
from support.servers import wait_until

Slow = Callable[[object, str], None]
_RUNNING = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'migration-web' AND state = 'active' AND query LIKE '%pg_sleep(%'
""")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    """Let the long statements of a module be this one."""
    monkeypatch.setattr(places, "PATIENCE", 0.0)
    monkeypatch.setattr(places, "_BETWEEN_PIECES", 0.2)

    def slow(module: object, statement: str) -> None:
        def execute(session: Session, _longest: str = "") -> None:
            session.execute(text("SET LOCAL statement_timeout = 0"))
            session.execute(text(statement))

        monkeypatch.setattr(module, "allow_minutes", execute)

    return slow


def test_a_page_and_a_file_that_nobody_waits_for_end(
    slow: Slow, administrator: ConsoleClient, batches: BatchClient, sessions: sessionmaker[Session]
) -> None:
    for module, path, kind in (
        (submitted, f"/suppliers/{batches.supplier.code}/", "text/html"),
        (trail, "/audit/export.ndjson", "application/x-ndjson"),
    ):
        slow(module, "SELECT pg_sleep(3600)")
        answer = administrator.client.get(f"/console{path}", buffered=False)
        assert answer.status_code == 200
        assert answer.mimetype == kind
        answer.close()
        with sessions() as session:
            wait_until(lambda: session.scalar(_RUNNING) == 0, "it is cancelled")


def test_a_file_is_sent_as_one_however_long_its_view_takes(
    monkeypatch: pytest.MonkeyPatch, slow: Slow, administrator: ConsoleClient
) -> None:
    def record(session: Session, *_: object, **_details: object) -> None:
        session.execute(text("SELECT pg_sleep(0.5)"))

    monkeypatch.setattr(audit, "record", record)
    answer = administrator.client.get("/console/audit/export.ndjson")
    assert answer.mimetype == "application/x-ndjson"
    assert "audit.ndjson" in answer.headers["Content-Disposition"]


def test_who_waits_gets_the_page_or_what_is_wrong(
    slow: Slow, administrator: ConsoleClient, batches: BatchClient
) -> None:
    path, code = f"/suppliers/{batches.supplier.code}/", batches.supplier.code
    slow(submitted, "SELECT pg_sleep(0.5)")
    shown = administrator.client.get(f"/console{path}")
    assert shown.text.startswith(" ")
    assert f'<h1 class="h3">{code}' in shown.text or code in text_of(shown.text)
    slow(submitted, "SELECT pg_sleep(0.5), 1 / (SELECT 0 FROM pg_sleep(0.5))")
    failed = administrator.client.get(f"/console{path}")
    assert failed.status_code == 200
    assert "That did not work" in text_of(failed.text)


def test_a_form_that_takes_longer_is_sent_once_and_says_what_was_done(
    slow: Slow, administrator: ConsoleClient, batches: BatchClient
) -> None:
    batch_id = batches.start(batches.supplier.accounts(1), "import")
    batches.work()
    slow(starting, "SELECT pg_sleep(1)")
    answer = administrator.send(f"/batches/{batch_id}/undo/", {"reason": "A test."})
    assert answer.status_code == 200, answer.text
    said = text_of(answer.text)
    assert "The undo has started." in said
    assert "Continue" in said
    found: Any = batches.supplier.get("/undos/").json
    (undo,) = found
    assert f"/console/undos/{undo['undo_id']}/" in answer.text
