"""API keys are shown once, stored as a hash, and can be revoked."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Text, cast, select
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.db.base import Base
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access import api_keys
from migration_service.services.access.scopes import Scope
from migration_service.services.setup.suppliers import get_import_supplier
from support.audit import list_entries
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


@pytest.mark.parametrize("prefix", ["ami_0000000000", "", "\udcff", "ami_%"])
def test_revoking_an_unknown_prefix_is_an_error(sessions: sessionmaker[Session], prefix: str) -> None:
    with sessions.begin() as session, pytest.raises(errors.ApiKeyNotFoundError):
        api_keys.revoke_api_key(session, prefix)


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


def test_keys_are_listed_in_the_order_in_which_they_were_issued(sessions: sessionmaker[Session]) -> None:
    prefixes = [make_customer(sessions).prefix for _ in range(3)]
    with sessions.begin() as session:
        for prefix, name in zip(prefixes, "bca", strict=True):
            api_keys.get_api_key(session, prefix).name = name
    with sessions() as session:
        assert [it.prefix for it, _ in api_keys.list_api_keys(session)] == prefixes


def _entries(session: Session, prefix: str) -> list[tuple[str, int | None, dict[str, Any] | None]]:
    """Return the audit of a key, the oldest entry first."""
    return [(it.action, it.organisation_id, it.details) for it in list_entries(session, subject=prefix)]


def test_a_key_has_its_name_and_limits_and_the_audit_has_them_too(sessions: sessionmaker[Session]) -> None:
    customer, ends = make_customer(sessions), datetime(2100, 1, 1, tzinfo=UTC)
    limits = api_keys.KeyLimits(
        scopes=[Scope.READ],
        import_suppliers=[customer.import_supplier],
        networks=["192.0.2.7", "2001:db8::/32"],
        expires_at=ends,
    )
    with sessions.begin() as session:
        prefix = api_keys.find_prefix(
            api_keys.issue_api_key(
                session, organisation_name=customer.organisation, name="The key", limits=limits
            )
        )
    assert prefix
    with sessions() as session:
        key = api_keys.get_api_key(session, prefix)
        supplier_id = get_import_supplier(session, customer.import_supplier, organisation_id=None).id
        networks = ["192.0.2.7/32", "2001:db8::/32"]
        assert (key.name, key.organisation_id, key.expires_at) == ("The key", customer.organisation_id, ends)
        assert (key.scopes, key.import_supplier_ids) == (["read"], [supplier_id])
        assert key.allowed_networks == networks
        details = {"scopes": ["read"], "import_suppliers": [supplier_id], "networks": networks}
        assert _entries(session, prefix) == [("api_key.issued", customer.organisation_id, details)]
        without = api_keys.get_api_key(session, customer.prefix)
        assert (without.scopes, without.import_supplier_ids) == (None, None)
        assert (without.allowed_networks, without.expires_at, without.name) == (None, None, None)
        assert api_keys.get_api_key_name(session, key.id) == f"API key {prefix}"


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


def test_a_key_is_not_issued_with_a_wrong_name_or_for_the_supplier_of_another_organisation(
    sessions: sessionmaker[Session],
) -> None:
    customer, other = make_customer(sessions), make_customer(sessions)
    theirs = api_keys.KeyLimits(import_suppliers=[other.import_supplier])
    with sessions.begin() as session:
        with pytest.raises(errors.NameInvalidError):
            api_keys.issue_api_key(session, organisation_name=customer.organisation, name=" x")
        with pytest.raises(errors.ImportSupplierNotFoundError):
            api_keys.issue_api_key(session, organisation_name=customer.organisation, limits=theirs)
        with pytest.raises(errors.OrganisationNotFoundError):
            api_keys.issue_api_key(session, organisation_name="nobody")


@pytest.mark.parametrize("days", [None, 1, 30])
def test_the_successor_of_a_key_has_its_limits_and_the_key_ends_after_the_overlap(
    sessions: sessionmaker[Session], days: int | None
) -> None:
    customer = make_customer(sessions)
    ends = datetime.now(UTC) + timedelta(days=days) if days else None
    limits = api_keys.KeyLimits(
        scopes=[Scope.READ],
        import_suppliers=[customer.import_supplier],
        networks=["192.0.2.0/24"],
        expires_at=ends,
    )
    with sessions.begin() as session:
        first = api_keys.issue_api_key(
            session, organisation_name=customer.organisation, name="It", limits=limits
        )
    begun = datetime.now(UTC)
    with sessions.begin() as session:
        second, old = api_keys.roll_api_key(session, first, timedelta(days=7))
    assert second != first
    with sessions() as session:
        old, new = api_keys.get_api_key(session, old.prefix), api_keys.get_api_key(session, second)
        assert new.expires_at == ends
        for name in ("organisation_id", "name", "scopes", "import_supplier_ids", "allowed_networks"):
            assert getattr(new, name) == getattr(old, name) is not None
        assert old.expires_at is not None
        if days == 1:
            assert old.expires_at == ends
        else:
            assert timedelta(0) <= old.expires_at - begun - timedelta(days=7) < timedelta(minutes=5)
        details = {"successor": new.prefix, "expires_at": old.expires_at.isoformat()}
        rolled = ("api_key.rolled", customer.organisation_id, details)
        assert _entries(session, old.prefix)[1:] == [rolled]


def test_a_key_that_was_revoked_or_has_expired_has_no_successor_and_cannot_be_used(
    sessions: sessionmaker[Session],
) -> None:
    revoked, expired = make_customer(sessions), make_customer(sessions)
    with sessions.begin() as session:
        api_keys.revoke_api_key(session, revoked.prefix)
        api_keys.revoke_api_key(session, revoked.prefix)
        api_keys.get_api_key(session, expired.prefix).expires_at = datetime.now(UTC)
    with sessions() as session:
        for customer in (revoked, expired):
            with pytest.raises(errors.ApiKeyEndedError, match=customer.prefix):
                api_keys.roll_api_key(session, customer.prefix, timedelta(days=1))
            with pytest.raises(errors.UnauthenticatedError, match="not valid"):
                api_keys.authenticate_api_key(session, customer.api_key)
        entries = _entries(session, revoked.prefix)
        assert entries[1:] == [("api_key.revoked", revoked.organisation_id, None)]


def test_a_text_without_the_form_of_a_prefix_is_not_repeated_as_it_may_be_a_key(
    sessions: sessionmaker[Session],
) -> None:
    with sessions() as session:
        with pytest.raises(errors.ApiKeyNotFoundError, match="ami_0000000000"):
            api_keys.get_api_key(session, "ami_0000000000")
        with pytest.raises(errors.ApiKeyNotFoundError) as refused:
            api_keys.get_api_key(session, "ami_0000000000_mistyped")
    assert "mistyped" not in str(refused.value)
