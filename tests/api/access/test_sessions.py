"""Sessions, whose things are whose, and which address counts behind a proxy."""

import secrets
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.models import TokenSession
from migration_service.services.access.throttle import MOST_FAILURES
from migration_service.services.setup.teams import create_operations_team
from support.audit import audited
from support.factories import Customer, MakeClient, obtain
from support.imported_account import ImportedAccount, code_of
from support.supplier_client import SupplierClient
from support.vendor_servers import make_sandbox_vendor

SESSIONS = "/v1/data-import/sessions/"


def _log_in(client: FlaskClient, customer: Customer) -> tuple[dict[str, str], dict[str, Any]]:
    """The headers of a new session, and its tokens."""
    tokens = obtain(client, APIKey=customer.api_key)
    return {"Authorization": f"Token {tokens['token']}"}, tokens


def _list(client: FlaskClient, headers: dict[str, str], path: str = SESSIONS) -> Any:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json


def test_a_session_is_listed_with_its_key_and_ended_with_all_its_tokens(
    client: FlaskClient, customer: Customer, sessions: sessionmaker[Session]
) -> None:
    headers, _ = _log_in(client, customer)
    copied, tokens = _log_in(client, customer)
    session_id = tokens["payload"]["sid"]
    listed = _list(client, headers)
    assert listed[0]["session_id"] == session_id
    assert len(listed) == 2
    assert {it["api_key"] for it in listed} == {customer.prefix}
    ended = client.post(f"{SESSIONS}{session_id}/end/", headers=headers)
    assert ended.status_code == 200, ended.text
    again = client.post(f"{SESSIONS}{session_id}/end/", headers=headers)
    assert again.json == ended.json
    assert client.get(SESSIONS, headers=copied).status_code == 401
    assert obtain(client, refreshToken=tokens["refreshToken"])["errorCode"] == "authentication_failed"
    assert len(_list(client, headers)) == 1
    with sessions() as session:
        owner = session.get_one(TokenSession, session_id)
        assert owner.end_reason == "ended_by_organisation"
    (entry,) = audited(sessions, subject=session_id)
    assert (entry.action, entry.actor_kind, entry.actor) == ("session.ended", "api_key", customer.prefix)


def test_sessions_come_in_pages(supplier: SupplierClient) -> None:
    for _ in range(2):
        supplier.obtain_token()
    whole = _list(supplier.app.test_client(), {"Authorization": supplier.token})
    for limit, pages in ((2, [whole[:2], whole[2:]]), (3, [whole])):
        assert supplier.pages(f"/sessions/?limit={limit}") == pages


def test_a_team_of_another_organisation_does_not_exist(
    supplier: SupplierClient, another: SupplierClient, sessions: sessionmaker[Session]
) -> None:
    name = f"Team {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operations_team(session, name, organisation_name=another.organisation)
    (number,) = supplier.stage_new()
    theirs = supplier.process(number, operations_team_name=name)
    nobodys = supplier.process(number, operations_team_name="x" * len(name))
    assert theirs.status_code == 400
    assert theirs.data.replace(name.encode(), b"x" * len(name)) == nobodys.data
    query = {"mode": "import", "import_supplier": supplier.code, "operations_team_name": name}
    batch = supplier.post("/batches/", query_string=query, data=b"{}\n")
    assert (batch.status_code, code_of(batch)) == (400, "operations_team_not_found")


def test_a_vendor_of_another_organisation_does_not_exist(
    account: ImportedAccount, another: SupplierClient, sessions: sessionmaker[Session], sandbox_url: str
) -> None:
    instruction: dict[str, Any] = {"reference": "card-ok-1", "type": "CARD"}
    theirs, own = (
        make_sandbox_vendor(sessions, sandbox_url, organisation=it.organisation)
        for it in (another, account.supplier)
    )
    refused = account.post_payment_instruction(vendor=theirs, **instruction)
    assert (refused.status_code, code_of(refused)) == (400, "payment_vendor_not_found")
    assert account.post_payment_instruction(vendor=own, **instruction).status_code == 201


#: The address of the nearest proxy, as the web server sees it.
PROXY = "192.0.2.80"


def ask(client: FlaskClient, forwarded_for: str, api_key: str, proxy: str = PROXY) -> str:
    """Return `token`, or the code of the error, for a request that the proxy forwards."""
    client.environ_base |= {"REMOTE_ADDR": proxy, "HTTP_X_FORWARDED_FOR": forwarded_for}
    answer = obtain(client, APIKey=api_key)
    return str(answer.get("errorCode", "token"))


def guess(client: FlaskClient, forwarded_for: str, proxy: str = PROXY) -> None:
    """Send different wrong keys until the address has to wait."""
    for _ in range(MOST_FAILURES):
        wrong = f"ami_{secrets.randbelow(10**10):010}_" + "0" * 43
        assert ask(client, forwarded_for, wrong, proxy) == "authentication_failed"


def random_address() -> str:
    """Return an address that no other test uses."""
    return f"10.{secrets.randbelow(256)}.{secrets.randbelow(256)}.9"


@pytest.mark.parametrize(
    ("proxies", "chains"),
    [
        # The part that the client sent itself comes first, and is not trusted.
        (1, ("{a}", "198.51.100.1, {a}", "{b}")),
        (2, ("{a}, 192.0.2.81", "198.51.100.1, {a}, 192.0.2.81", "{a}, {b}, 192.0.2.81")),
    ],
)
def test_wrong_keys_behind_a_proxy_lock_out_no_other_client(
    migrated: Settings,
    make_client: MakeClient,
    customer: Customer,
    proxies: int,
    chains: tuple[str, str, str],
) -> None:
    client = make_client(replace(migrated, trusted_proxies=proxies))
    guesser, other = random_address(), random_address()
    guessing, the_same, another = (chain.format(a=guesser, b=other) for chain in chains)
    guess(client, guessing)
    assert ask(client, the_same, customer.api_key) == "throttled"
    assert ask(client, another, customer.api_key) == "token"


def test_without_trusted_proxies_the_header_changes_nothing(
    migrated: Settings, make_client: MakeClient, customer: Customer
) -> None:
    client = make_client(migrated)
    proxy = random_address()
    guess(client, random_address(), proxy)
    assert ask(client, random_address(), customer.api_key, proxy) == "throttled"
