"""Two customers, and a transaction in which tests make rows."""

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session, sessionmaker

from factories import Customer, make_customer


@pytest.fixture
def customer(sessions: sessionmaker[Session]) -> Customer:
    return make_customer(sessions)


@pytest.fixture
def other(sessions: sessionmaker[Session]) -> Customer:
    return make_customer(sessions)


@pytest.fixture
def session(sessions: sessionmaker[Session]) -> Iterator[Session]:
    """A transaction, in which the time of the database stands still. It is rolled back."""
    with sessions() as session:
        yield session
        session.rollback()
