"""Two customers, a clock that stands still, and a transaction in which tests make rows of plans."""

from collections.abc import Iterator
from datetime import datetime
from unittest.mock import patch

import pytest
from sqlalchemy.orm import Session, sessionmaker

from factories import Customer, make_customer
from migration_service.services.batches import clock
from unit.services.waves.wave_rows import EVENING


@pytest.fixture
def customer(sessions: sessionmaker[Session]) -> Customer:
    return make_customer(sessions)


@pytest.fixture
def other(sessions: sessionmaker[Session]) -> Customer:
    return make_customer(sessions)


@pytest.fixture
def session(sessions: sessionmaker[Session]) -> Iterator[Session]:
    """A transaction. It is rolled back."""
    with sessions() as session:
        yield session
        session.rollback()


@pytest.fixture
def now() -> Iterator[datetime]:
    """The time by which windows open and close."""
    with patch.object(clock, "read_clock", lambda _session: EVENING):
        yield EVENING
