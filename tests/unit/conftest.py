"""A transaction in which tests make rows."""

from collections.abc import Iterator

import pytest
from sqlalchemy.orm import Session, sessionmaker


@pytest.fixture
def session(sessions: sessionmaker[Session]) -> Iterator[Session]:
    """A transaction, in which the time of the database stands still. It is rolled back."""
    with sessions() as session:
        yield session
        session.rollback()
