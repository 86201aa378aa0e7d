"""API keys are shown once, stored as a hash, and can be revoked."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.db.base import Base
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access import api_keys
from support.factories import make_customer


def test_a_key_is_stored_as_a_hash_only(sessions: sessionmaker[Session]) -> None:
    api_key = make_customer(sessions).api_key
    with sessions.begin() as session:
        everything = "".join(
            repr(row)
            for table in Base.metadata.sorted_tables
            for row in session.execute(select(cast(table.table_valued(), Text)))
        )
    secret = api_key.rpartition("_")[2]
    assert hashlib.sha256(api_key.encode()).hexdigest() in everything
    assert secret not in everything
    assert secret.encode().hex() not in everything


@pytest.mark.parametrize(
    "change",
    [
        lambda key: key[:-1] + ("a" if key[-1] != "a" else "b"),
        lambda key: key + "a",
        lambda key: key[:-1],
        lambda key: " " + key,
        lambda key: key + "\n",
        lambda key: key.replace("ami_", "ami_\0"),
        lambda key: key.upper(),
        lambda key: "ami_0000000000" + key[14:],
        api_keys.find_prefix,
        lambda _key: "",
        lambda _key: "ami_é" * 1000,
    ],
)
def test_every_wrong_key_is_refused_with_the_same_message(
    sessions: sessionmaker[Session], change: object
) -> None:
    assert callable(change)
    customer = make_customer(sessions)
    with sessions.begin() as session:
        assert (
            api_keys.authenticate_api_key(session, customer.api_key).organisation_id
            == customer.organisation_id
        )
        with pytest.raises(errors.UnauthenticatedError, match="The API key is not valid, or it was revoked"):
            api_keys.authenticate_api_key(session, change(customer.api_key))


def test_the_use_of_a_key_is_recorded_once_a_minute(sessions: sessionmaker[Session]) -> None:
    customer = make_customer(sessions)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    lately = datetime.now(UTC) - timedelta(seconds=30)
    for before in (None, long_ago, datetime.now(UTC) - timedelta(seconds=61), lately):
        with sessions.begin() as session:
            api_keys.authenticate_api_key(session, customer.api_key).last_used_at = before
        with sessions.begin() as session:
            after = api_keys.authenticate_api_key(session, customer.api_key).last_used_at
        assert after is not None
        assert (after == before) == (before == lately)


def test_a_key_is_used_from_its_networks_only(sessions: sessionmaker[Session]) -> None:
    limits = api_keys.KeyLimits(networks=["192.0.2.0/24", "2001:db8::/32"])
    with sessions.begin() as session:
        organisation = make_customer(sessions).organisation
        api_key = api_keys.issue_api_key(session, organisation_name=organisation, limits=limits)
        for inside in ("192.0.2.7", "::ffff:192.0.2.9", "2001:db8::1"):
            with acting_as(Origin(kind=ActorKind.SERVICE, address=inside)):
                assert api_keys.authenticate_api_key(session, api_key).last_used_at is not None
        for address in ("192.0.3.7", "2001:db9::1", "unknown", None):
            with (
                acting_as(Origin(kind=ActorKind.SERVICE, address=address)),
                pytest.raises(errors.PermissionDeniedError, match=f"from the address {address}"),
            ):
                api_keys.authenticate_api_key(session, api_key)
