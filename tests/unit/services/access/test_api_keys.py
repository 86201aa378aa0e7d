"""API keys are shown once, stored as a hash, and can be revoked."""

import hashlib
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session, sessionmaker

from factories import make_customer
from migration_service.db.base import Base
from migration_service.errors import (
    ApiKeyNotFoundError,
    NameInvalidError,
    NameTakenError,
    OrganisationNotFoundError,
    UnauthenticatedError,
)
from migration_service.services.access.api_keys import (
    authenticate_api_key,
    find_prefix,
    issue_api_key,
    list_api_keys,
    revoke_api_key,
)
from migration_service.services.setup.names import MAX_NAME
from migration_service.services.setup.organisations import create_organisation, list_organisations


def test_a_key_is_stored_as_a_hash_only(
    sessions: sessionmaker[Session],
) -> None:
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


def test_keys_are_unique(sessions: sessionmaker[Session]) -> None:
    customer = make_customer(sessions)
    with sessions.begin() as session:
        keys = {issue_api_key(session, organisation_name=customer.organisation) for _ in range(50)}
        keys.add(customer.api_key)
        assert len(keys) == len({find_prefix(key) for key in keys}) == 51


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
        find_prefix,
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
        assert authenticate_api_key(session, customer.api_key).organisation_id == customer.organisation_id
        with pytest.raises(UnauthenticatedError, match="The API key is not valid, or it was revoked"):
            authenticate_api_key(session, change(customer.api_key))


def test_a_revoked_key_is_refused_and_keeps_the_time_of_its_revocation(
    sessions: sessionmaker[Session],
) -> None:
    customer = make_customer(sessions)
    with sessions.begin() as session:
        first = revoke_api_key(session, customer.prefix).revoked_at
    with sessions.begin() as session:
        assert revoke_api_key(session, customer.api_key).revoked_at == first
        with pytest.raises(UnauthenticatedError, match="The API key is not valid, or it was revoked"):
            authenticate_api_key(session, customer.api_key)


@pytest.mark.parametrize("prefix", ["ami_0000000000", "", "\udcff", "ami_%"])
def test_revoking_an_unknown_prefix_is_an_error(sessions: sessionmaker[Session], prefix: str) -> None:
    with sessions.begin() as session, pytest.raises(ApiKeyNotFoundError):
        revoke_api_key(session, prefix)


def test_the_use_of_a_key_is_recorded_once_a_minute(sessions: sessionmaker[Session]) -> None:
    customer = make_customer(sessions)
    long_ago = datetime.now(UTC) - timedelta(hours=1)
    lately = datetime.now(UTC) - timedelta(seconds=30)
    for before in (None, long_ago, lately):
        with sessions.begin() as session:
            authenticate_api_key(session, customer.api_key).last_used_at = before
        with sessions.begin() as session:
            after = authenticate_api_key(session, customer.api_key).last_used_at
        assert after is not None
        assert (after == before) == (before == lately)


def test_keys_are_listed_with_their_organisation(sessions: sessionmaker[Session]) -> None:
    customer = make_customer(sessions)
    with sessions.begin() as session:
        owners = {api_key.prefix: owner for api_key, owner in list_api_keys(session)}
    assert owners[customer.prefix] == customer.organisation


@pytest.mark.parametrize("name", ["nobody", "", "\0", "\udcff"])
def test_a_key_for_an_unknown_organisation_is_not_issued(sessions: sessionmaker[Session], name: str) -> None:
    with sessions.begin() as session, pytest.raises(OrganisationNotFoundError):
        issue_api_key(session, organisation_name=name)


def test_a_taken_name_is_an_error_that_leaves_the_transaction_usable(sessions: sessionmaker[Session]) -> None:
    taken = make_customer(sessions).organisation
    with sessions.begin() as session:
        with pytest.raises(NameTakenError, match=taken):
            create_organisation(session, taken)
        create_organisation(session, f"{taken} 2")
    with sessions.begin() as session:
        names = [organisation.name for organisation in list_organisations(session)]
    assert names.count(taken) == names.count(f"{taken} 2") == 1


@pytest.mark.parametrize("name", ["", " ", " x", "x ", "a\nb", "a\0b", "\udcff", "x" * (MAX_NAME + 1)])
def test_a_name_must_be_printable_and_not_too_long(sessions: sessionmaker[Session], name: str) -> None:
    with sessions.begin() as session, pytest.raises(NameInvalidError):
        create_organisation(session, name)
