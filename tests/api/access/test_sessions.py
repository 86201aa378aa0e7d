"""Which address counts behind a proxy."""

import secrets
from dataclasses import replace

import pytest
from flask.testing import FlaskClient

from migration_service.config import Settings
from migration_service.services.access.throttle import MOST_FAILURES
from support.factories import Customer, MakeClient, obtain

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
