"""The first operator of a new home folder, who can log in to the console."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import select
from sqlalchemy.orm import Session

from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.models import Operator
from migration_service.services.access import operators
from migration_service_local.servers.home import Home

#: The first operator of the console, and the file in the home folder with only the password.
FIRST_OPERATOR = "admin"
PASSWORD_FILE = "console-password"  # noqa: S105


@contextmanager
def open_session(database_url: str) -> Iterator[Session]:
    """Open the one transaction of a connection, and commit it at the end."""
    # As if there were a pgbouncer, which there may be.
    engine = make_engine(
        database_url, pool_size=1, max_overflow=0, application_name="migration-up", pooler=True
    )
    try:
        with make_sessionmaker(engine).begin() as session:
            yield session
    finally:
        engine.dispose()


def make_first_operator(home: Home, database_url: str) -> None:
    """Create an operator with every permission, unless one exists, and a file (0600) with the password."""
    with open_session(database_url) as session:
        if session.scalar(select(Operator.id).limit(1)) is not None:
            return
        password = secrets.token_urlsafe(18)
        operators.create_operator(session, FIRST_OPERATOR, operators.OperatorRole.ADMINISTER)
        operators.set_operator_password(session, FIRST_OPERATOR, password)
        home.write_text(PASSWORD_FILE, password)
