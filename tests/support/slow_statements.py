"""Statements that take longer than a request usually does, in place of those of a module."""

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

_RUNNING = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'migration-web' AND state = 'active' AND query LIKE '%pg_sleep(%'
""")


def slow_down(patch: pytest.MonkeyPatch, module: object, statement: str) -> None:
    """Let a module execute this statement, which has a pg_sleep, where it has one that may take minutes."""

    def execute(session: Session, _longest: str = "") -> None:
        session.execute(text("SET LOCAL statement_timeout = 0"))
        session.execute(text(statement))

    patch.setattr(module, "allow_minutes", execute)


def count_slow(sessions: sessionmaker[Session]) -> int:
    """Return how many of them run."""
    with sessions() as session:
        return session.scalar(_RUNNING) or 0
