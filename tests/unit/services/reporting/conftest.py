"""Two suppliers, and a transaction in which tests make the rows that are reported."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.setup.suppliers import KnownSupplier
from support.rows import make_supplier


@pytest.fixture
def within(sessions: sessionmaker[Session]) -> Iterator[sessionmaker[Session]]:
    """Sessions in one transaction, which is rolled back. The time of the database stands still in it."""
    with sessions.kw["bind"].connect() as connection:
        yield sessionmaker(connection, expire_on_commit=False, join_transaction_mode="create_savepoint")
        connection.rollback()


@pytest.fixture
def session(within: sessionmaker[Session]) -> Iterator[Session]:
    """One of these sessions, in which tests make their rows."""
    with within() as session:
        yield session


@pytest.fixture
def known(session: Session) -> KnownSupplier:
    return make_supplier(session, "MINE")


@pytest.fixture
def other(session: Session) -> KnownSupplier:
    return make_supplier(session, "OTHER")


@pytest.fixture
def unsorted(session: Session) -> None:
    """Make the database neither read rows in the order of an index, nor sort them unless it has to."""
    for way in ("indexscan", "bitmapscan", "sort"):
        session.execute(text(f"SET LOCAL enable_{way} = off"))
