"""The console with operators of each role, and a supplier with a batch that has failed lines."""

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.services.access.operators import OperatorRole
from support.batch_client import BatchClient
from support.console_client import ConsoleClient, LogIn, make_operator


@pytest.fixture
def stranger(console_app: Flask) -> ConsoleClient:
    return ConsoleClient(console_app)


@pytest.fixture
def log_in(console_app: Flask, sessions: sessionmaker[Session]) -> LogIn:

    def log_in(role: OperatorRole = OperatorRole.ADMINISTER, *organisations: str) -> ConsoleClient:
        client = ConsoleClient(console_app)
        answer = client.log_in(make_operator(sessions, role, *organisations))
        assert answer.status_code == 303, answer.text
        return client

    return log_in


@pytest.fixture
def administrator(log_in: LogIn) -> ConsoleClient:
    return log_in()


@pytest.fixture
def broken_batch(batches: BatchClient) -> str:
    """The id of an import of six accounts, of which one has a bad telephone number, and one is no JSON."""
    accounts = batches.supplier.accounts(5)
    accounts[1]["customers"] = [{"family_name": "Jansen", "landline": "not a number"}]
    return str(batches.run([*accounts, b"{no json"], "import", name="first book")["batch_id"])
