"""Sections 2.8 and 4.11: payment instructions are added once their vendor has confirmed them."""

import logging
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import QueuePool

from migration_service.blueprints.requests.resources import resources
from migration_service.payment_vendors.protocol import VendorKind
from migration_service.services.setup.vendors import create_payment_vendor
from support.imported_account import ImportedAccount, at_once, code_of, codes_of
from support.vendor_servers import run_sandbox

SANDBOX_KEY = "the-sandbox-secret"
_SANDBOX_VARIABLE = "TEST_SANDBOX_VARIABLE"


@pytest.fixture(scope="module")
def sandbox_url() -> Iterator[str]:
    with run_sandbox(SANDBOX_KEY) as url:
        yield url


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the environment of the web processes."""
    monkeypatch.setenv(_SANDBOX_VARIABLE, SANDBOX_KEY)


def _make_vendor(sessions: sessionmaker[Session], kind: VendorKind, url: str, variable: str | None) -> str:
    """Create a vendor for one test, with its own circuit breaker."""
    name = f"vendor {uuid4().hex[:8]}"
    with sessions.begin() as session:
        create_payment_vendor(session, name, kind=kind, url=url, secret_env=variable)
    return name


@pytest.fixture
def sandbox(sessions: sessionmaker[Session], sandbox_url: str) -> str:
    return _make_vendor(sessions, VendorKind.HTTP, sandbox_url, _SANDBOX_VARIABLE)


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


def test_an_unchanged_request_gets_the_same_answer_without_asking_the_vendor(
    account: ImportedAccount, sessions: sessionmaker[Session]
) -> None:
    with run_sandbox(SANDBOX_KEY) as url:
        vendor = _make_vendor(sessions, VendorKind.HTTP, url, _SANDBOX_VARIABLE)
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


@pytest.mark.parametrize(
    ("reference", "status", "code"),
    [
        ("card-refuse-1", 400, "payment_instruction_rejected"),
        ("card-unauthorised-1", 400, "payment_vendor_unreachable"),
        ("card-error-1", 500, "payment_vendor_unavailable"),
        ("card-ok-1?type=SEPA_DEBIT", 201, None),
    ],
)
def test_400_says_do_not_retry_and_500_says_retry(
    account: ImportedAccount, sandbox: str, reference: str, status: int, code: str | None
) -> None:
    answer = account.post_payment_instruction(vendor=sandbox, reference=reference, type="CARD")
    assert answer.status_code == status, answer.text
    if code:
        assert code_of(answer) == code
        assert _instructions(account) == []


def test_a_retry_after_an_intermittent_failure_succeeds(
    account: ImportedAccount, sessions: sessionmaker[Session]
) -> None:
    with run_sandbox(SANDBOX_KEY) as url:
        vendor = _make_vendor(sessions, VendorKind.HTTP, url, _SANDBOX_VARIABLE)
    port = int(url.rpartition(":")[2])
    away = account.post_payment_instruction(vendor=vendor, reference="card-ok-1", type="CARD")
    assert (away.status_code, code_of(away)) == (500, "payment_vendor_unavailable")
    with run_sandbox(SANDBOX_KEY, port):
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


def test_the_secret_is_in_no_answer_and_no_log(
    account: ImportedAccount, sandbox: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for kind in ("ok", "unauthorised", "error", "nonsense"):
        answer = account.post_payment_instruction(vendor=sandbox, reference=f"card-{kind}-7", type="CARD")
        assert SANDBOX_KEY not in answer.text
    assert SANDBOX_KEY not in caplog.text


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"vendor": ""}, ("vendor", "blank")),
        ({"reference": "a\nb"}, ("reference", "invalid_characters")),
        ({"type": "card"}, ("type", "invalid_choice")),
    ],
)
def test_a_faulty_body_is_refused_with_its_path(
    account: ImportedAccount, change: dict[str, Any], error: tuple[str, str]
) -> None:
    body = {"vendor": "sandbox", "reference": "card-ok-1", "type": "CARD"} | change
    answer = account.post_payment_instruction(**body)
    assert answer.status_code == 400
    assert codes_of(answer) == [error]


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
