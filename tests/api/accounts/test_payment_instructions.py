"""Payment instructions: several requests at once, and what is held while the vendor is asked."""

import logging

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import QueuePool

from migration_service.blueprints.requests.resources import resources
from support.imported_account import ImportedAccount, at_once
from support.vendor_servers import make_sandbox_vendor

# It sets the secret of every sandbox.
pytestmark = pytest.mark.usefixtures("sandbox_url")


@pytest.fixture
def sandbox(sessions: sessionmaker[Session], sandbox_url: str) -> str:
    return make_sandbox_vendor(sessions, sandbox_url)


def test_simultaneous_requests_store_an_instruction_once(account: ImportedAccount, sandbox: str) -> None:
    answers = at_once(
        lambda: account.post_payment_instruction(vendor=sandbox, reference="card-ok-2", type="CARD"), times=6
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len(account.read()["added_payment_instructions"]) == 1


def test_no_connection_to_the_database_is_held_while_the_vendor_is_asked(
    account: ImportedAccount, sandbox: str, app: Flask
) -> None:
    with app.app_context():
        pool = resources().Session.kw["bind"].pool
    assert isinstance(pool, QueuePool)
    used: list[int] = []

    class _Watch(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            used.append(pool.checkedout())

    # urllib3 logs each connection that it opens to the vendor.
    watch, logger = _Watch(), logging.getLogger("urllib3.connectionpool")
    level = logger.level
    logger.addHandler(watch)
    logger.setLevel(logging.DEBUG)
    try:
        account.post_payment_instruction(vendor=sandbox, reference="card-ok-1", type="CARD")
    finally:
        logger.removeHandler(watch)
        logger.setLevel(level)
    assert used
    assert set(used) == {0}
