"""Sections 2.8 and 4.11: payment instructions are added once their vendor has confirmed them."""

import logging
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import QueuePool

from migration_service.blueprints.requests.resources import resources
from migration_service.models import PaymentInstruction
from support.imported_account import ImportedAccount, at_once, code_of, codes_of
from support.vendor_servers import make_sandbox_vendor, run_sandbox

# It sets the secret of every sandbox.
pytestmark = pytest.mark.usefixtures("sandbox_url")


@pytest.fixture
def sandbox(sessions: sessionmaker[Session], sandbox_url: str) -> str:
    return make_sandbox_vendor(sessions, sandbox_url)


def _instructions(account: ImportedAccount) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = account.read().get("added_payment_instructions", [])
    return kept


def test_a_confirmed_instruction_is_stored_with_the_vendors_details(
    account: ImportedAccount, sandbox: str
) -> None:
    answer = account.post_payment_instruction(vendor=sandbox, reference="card-ok-1", type="CARD")
    assert answer.status_code == 201
    number = account.read()["service_account_number"]
    assert answer.json == {"service_account_number": number, "reference": "card-ok-1"}
    (kept,) = _instructions(account)
    assert (kept["vendor"], kept["reference"], kept["type"]) == (sandbox, "card-ok-1", "CARD")
    assert kept["details"]["last_four_digits"] == "4242"


def test_the_account_that_the_vendor_names_must_match_and_is_stored(
    account: ImportedAccount, sessions: sessionmaker[Session], sandbox: str
) -> None:
    other = account.post_payment_instruction(vendor=sandbox, reference="card-account-1", type="CARD")
    assert code_of(other) == "payment_instruction_rejected"
    own = f"card-account-{account.number}"
    assert account.post_payment_instruction(vendor=sandbox, reference=own, type="CARD").status_code == 201
    with sessions() as session:
        (kept,) = session.scalars(select(PaymentInstruction))
    assert (kept.reference, kept.account_reference, kept.customer_reference) == (own, account.number, None)
    assert kept.api_key_id is not None


def test_an_unchanged_request_gets_the_same_answer_without_asking_the_vendor(
    account: ImportedAccount, sessions: sessionmaker[Session]
) -> None:
    with run_sandbox() as url:
        vendor = make_sandbox_vendor(sessions, url)
        first = account.post_payment_instruction(vendor=vendor, reference="card-ok-1", type="CARD")
    again = account.post_payment_instruction(vendor=vendor, reference="card-ok-1", type="CARD")
    assert (again.status_code, again.json) == (first.status_code, first.json)
    assert len(_instructions(account)) == 1


def test_simultaneous_requests_store_an_instruction_once(account: ImportedAccount, sandbox: str) -> None:
    answers = at_once(
        lambda: account.post_payment_instruction(vendor=sandbox, reference="card-ok-2", type="CARD"), times=6
    )
    assert {answer.status_code for answer in answers} == {201}
    assert len(_instructions(account)) == 1


def test_a_retry_after_an_intermittent_failure_succeeds(
    account: ImportedAccount, sessions: sessionmaker[Session]
) -> None:
    with run_sandbox() as url:
        vendor = make_sandbox_vendor(sessions, url)
    port = int(url.rpartition(":")[2])
    away = account.post_payment_instruction(vendor=vendor, reference="card-ok-1", type="CARD")
    assert (away.status_code, code_of(away)) == (500, "payment_vendor_unavailable")
    with run_sandbox(port):
        back = account.post_payment_instruction(vendor=vendor, reference="card-ok-1", type="CARD")
    assert back.status_code == 201


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


def test_a_dry_run_asks_the_vendor_and_keeps_nothing(account: ImportedAccount, sandbox: str) -> None:
    answer = account.post_payment_instruction(
        vendor=sandbox, reference="card-ok-1", type="CARD", dry_run=True
    )
    assert answer.status_code == 200
    number = account.read()["service_account_number"]
    assert answer.json == {"service_account_number": number, "reference": "card-ok-1"}
    assert _instructions(account) == []
    refused = account.post_payment_instruction(
        vendor=sandbox, reference="card-refuse-1", type="CARD", dry_run=True
    )
    assert codes_of(refused) == [("reference", "payment_instruction_rejected")]
