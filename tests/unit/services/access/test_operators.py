"""Operators: roles, passwords, and logins that reveal nothing to guesses."""

import secrets
from collections.abc import Callable

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from factories import Customer, make_customer
from migration_service.errors import (
    NameTakenError,
    OperatorNotFoundError,
    OrganisationNotFoundError,
    PasswordInvalidError,
    UnauthenticatedError,
)
from migration_service.models import AuditEntry, Operator
from migration_service.services.access import operators
from migration_service.services.access.operators import (
    OperatorRole,
    authenticate_operator,
    create_operator,
    disable_operator,
    list_operators,
    set_operator_password,
    set_operator_role,
)

PASSWORD = "a long enough password"


@pytest.fixture
def customer(sessions: sessionmaker[Session]) -> Customer:
    return make_customer(sessions)


@pytest.fixture
def name(sessions: sessionmaker[Session], customer: Customer) -> str:
    """An operator with a password, bound to the customer's organisation."""
    name = f"Anna {secrets.token_hex(4)}"
    with sessions.begin() as session:
        create_operator(session, name, OperatorRole.OPERATE, organisations=[customer.organisation])
        set_operator_password(session, name, PASSWORD)
    return name


def test_a_login_returns_the_operator_with_role_and_organisations(
    sessions: sessionmaker[Session], name: str, customer: Customer
) -> None:
    with sessions.begin() as session:
        operator = authenticate_operator(session, name, PASSWORD)
        assert (operator.name, operator.role) == (name, OperatorRole.OPERATE)
        assert operator.organisation_ids == frozenset([customer.organisation_id])
        set_operator_role(session, name, OperatorRole.READ)
        assert authenticate_operator(session, name, PASSWORD).role is OperatorRole.READ
        (bound,) = [bound for operator, bound in list_operators(session) if operator.name == name]
        assert bound == [customer.organisation]


def test_a_password_is_stored_as_argon2id_only(
    sessions: sessionmaker[Session],
    name: str,
    slow_hasher: Callable[[], PasswordHasher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "_hasher", slow_hasher)
    with sessions.begin() as session:
        authenticate_operator(session, name, PASSWORD)  # which stores a hash that takes longer from now on
    with sessions.begin() as session:
        authenticate_operator(session, name, PASSWORD)
    with sessions() as session:
        stored = session.scalars(select(Operator.password_hash).where(Operator.name == name)).one()
        entries = session.scalars(select(AuditEntry).where(AuditEntry.subject == name)).all()
    assert stored is not None
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert sorted(entry.action for entry in entries) == [
        *("operator.created", "operator.logged_in", "operator.logged_in", "operator.password_set")
    ]
    assert PASSWORD not in repr([entry.details for entry in entries])


@pytest.mark.parametrize("password", ["", PASSWORD + " ", PASSWORD.upper(), "x" * 100_000, "\0"])
def test_a_wrong_password_is_refused_like_an_unknown_name(
    sessions: sessionmaker[Session], name: str, password: str
) -> None:
    with sessions.begin() as session:
        for who in (name, "Nobody", "\0", ""):
            with pytest.raises(UnauthenticatedError, match=r"The name or the password is not right\."):
                authenticate_operator(session, who, password)


def test_operators_that_are_disabled_or_have_no_password_cannot_log_in(
    sessions: sessionmaker[Session], name: str
) -> None:
    with sessions.begin() as session:
        create_operator(session, f"{name} 2", OperatorRole.ADMINISTER)
        with pytest.raises(UnauthenticatedError):
            authenticate_operator(session, f"{name} 2", "nobody has this password")
        disabled_at = disable_operator(session, name).disabled_at
        assert disable_operator(session, name).disabled_at == disabled_at
        with pytest.raises(UnauthenticatedError):
            authenticate_operator(session, name, PASSWORD)


def test_invalid_operators_are_refused(sessions: sessionmaker[Session], name: str) -> None:
    with sessions.begin() as session:
        with pytest.raises(NameTakenError):
            create_operator(session, name, OperatorRole.READ)
        with pytest.raises(OrganisationNotFoundError):
            create_operator(session, f"{name} 2", OperatorRole.READ, organisations=["nobody"])
        for password in ("x" * 11, "x" * 257):
            with pytest.raises(PasswordInvalidError):
                set_operator_password(session, name, password)
        with pytest.raises(OperatorNotFoundError):
            disable_operator(session, "Nobody")


def test_a_role_includes_those_before_it() -> None:
    allowed = {(a.value, b.value) for a in OperatorRole for b in OperatorRole if a.includes(b)}
    assert allowed == {
        ("read", "read"),
        ("operate", "read"),
        ("operate", "operate"),
        ("administer", "read"),
        ("administer", "operate"),
        ("administer", "administer"),
    }
