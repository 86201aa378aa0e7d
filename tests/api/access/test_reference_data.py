"""A web process keeps callers and suppliers in memory, and answers as if it looked them up each time."""

from dataclasses import replace
from threading import Event, Thread
from typing import Any

import pytest
from flask.testing import FlaskClient
from prometheus_client import REGISTRY
from sqlalchemy import update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.db import reference
from migration_service.models import ApiKey
from migration_service_local.samples import generate_accounts
from support.commands import Run, json_of
from support.factories import Customer, MakeClient, obtain
from support.servers import wait_until

SESSIONS = "/v1/data-import/sessions/"
VALIDATE = "/v1/data-import/validate-account/"
STATUS = "/v1/data-import/account-transfer-status/{}/10000001/"


@pytest.fixture
def keeping(make_client: MakeClient, migrated: Settings, monkeypatch: pytest.MonkeyPatch) -> FlaskClient:
    """A client of an application that keeps rows for a second, as it does by default."""
    monkeypatch.setattr(reference, "KEPT_SECONDS", 1.0)
    return make_client(migrated)


def _log_in(client: FlaskClient, customer: Customer) -> tuple[dict[str, str], str]:
    """The headers of a new session, and its id."""
    tokens = obtain(client, APIKey=customer.api_key)
    return {"Authorization": f"Token {tokens['token']}"}, tokens["payload"]["sid"]


def _from_memory() -> float:
    return REGISTRY.get_sample_value("migration_reference_reads_total", {"source": "memory"}) or 0.0


def _status(client: FlaskClient, headers: dict[str, str], customer: Customer, **environment: Any) -> int:
    """The status of a request of the caller: 404 if it is accepted, as nothing is staged."""
    path = STATUS.format(customer.import_supplier)
    return client.get(path, headers=headers, environ_overrides=environment).status_code


def _wait_until_kept(client: FlaskClient, headers: dict[str, str], customer: Customer) -> None:
    def is_kept() -> bool:
        before = _from_memory()
        assert _status(client, headers, customer) == 404
        return _from_memory() > before

    wait_until(is_kept, "a caller that is kept")


def test_the_next_request_of_a_session_needs_no_look_up(
    keeping: FlaskClient, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    headers, _ = _log_in(keeping, customer)
    _wait_until_kept(keeping, headers, customer)
    account = next(iter(generate_accounts(1, supplier=customer.import_supplier, seed=1)))

    def both_are_kept() -> bool:
        before = _from_memory()
        assert keeping.post(VALIDATE, json=account, headers=headers).status_code == 200
        return _from_memory() == before + 2

    wait_until(both_are_kept, "a caller and a supplier that are kept")


def test_a_session_is_over_once_ending_it_is_answered(keeping: FlaskClient, customer: Customer) -> None:
    own, _ = _log_in(keeping, customer)
    copied, session_id = _log_in(keeping, customer)
    _wait_until_kept(keeping, copied, customer)
    is_ended = Event()

    def go_on() -> None:
        """Send requests meanwhile, so that the caller is looked up again until the session is over."""
        other_client = keeping.application.test_client()
        while not is_ended.is_set():
            _status(other_client, copied, customer)

    going_on = Thread(target=go_on)
    going_on.start()
    ended = keeping.post(f"{SESSIONS}{session_id}/end/", headers=own)
    after = _status(keeping, copied, customer)
    is_ended.set()
    going_on.join()
    assert (ended.status_code, after) == (200, 401)
    assert _status(keeping, own, customer) == 404


def test_commands_are_done_when_every_web_process_knows(
    keeping: FlaskClient, customer: Customer, run: Run
) -> None:
    headers, session_id = _log_in(keeping, customer)
    others, _ = _log_in(keeping, customer)
    account = next(iter(generate_accounts(1, supplier=customer.import_supplier, seed=1)))
    stage = "/v1/data-import/account-import-process/create-or-update/"
    assert keeping.post(stage, json=account, headers=headers).status_code == 201

    _wait_until_kept(keeping, headers, customer)
    run("suppliers", "set-status", customer.import_supplier, "paused")
    paused = keeping.post(stage, json=account, headers=headers)
    assert (paused.status_code, paused.json and paused.json["code"]) == (400, "import_supplier_paused")
    run("api-keys", "end-session", session_id)
    assert _status(keeping, headers, customer) == 401
    _wait_until_kept(keeping, others, customer)
    rolled = json_of(run("api-keys", "roll", customer.prefix, "--overlap", "0m", "--json"))
    assert _status(keeping, others, customer) == 401
    of_successor, _ = _log_in(keeping, replace(customer, api_key=rolled["api_key"]))
    _wait_until_kept(keeping, of_successor, customer)
    run("api-keys", "revoke", rolled["prefix"])
    assert _status(keeping, of_successor, customer) == 401


def test_a_key_that_is_limited_to_networks_is_refused_from_another_address(
    keeping: FlaskClient, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    with sessions.begin() as session:
        of_key = update(ApiKey).where(ApiKey.prefix == customer.prefix)
        session.execute(of_key.values(allowed_networks=["127.0.0.0/8"]))
    headers, _ = _log_in(keeping, customer)
    _wait_until_kept(keeping, headers, customer)
    before = _from_memory()
    assert _status(keeping, headers, customer, REMOTE_ADDR="192.0.2.1") == 403
    assert _from_memory() > before
    keeping.environ_base["REMOTE_ADDR"] = "192.0.2.1"
    assert obtain(keeping, APIKey=customer.api_key)["errorCode"] == "permission_denied"


def test_a_supplier_that_is_kept_does_not_exist_for_another_organisation(
    keeping: FlaskClient, customer: Customer, other: Customer
) -> None:
    account = next(iter(generate_accounts(1, supplier=customer.import_supplier, seed=1)))
    own, _ = _log_in(keeping, customer)
    foreign, _ = _log_in(keeping, other)
    _wait_until_kept(keeping, own, customer)
    assert keeping.post(VALIDATE, json=account, headers=own).status_code == 200
    refused = keeping.post(VALIDATE, json=account, headers=foreign)
    assert (refused.status_code, refused.json and refused.json["code"]) == (400, "import_supplier_not_found")
