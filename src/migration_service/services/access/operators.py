"""Operators: the people who run the service, each with a role, and optionally limited to organisations."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from threading import Lock

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import select, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service import errors
from migration_service.models import Operator, OperatorOrganisation, OperatorSession, Organisation
from migration_service.origin import ActorKind, acting_as, current_origin
from migration_service.services.access.throttle import client_of
from migration_service.services.audit.entries import AuditAction, record
from migration_service.services.setup.names import check_name, is_name, unique_name
from migration_service.services.setup.organisations import get_organisation

_SHORTEST, _LONGEST = 12, 256
_REFUSED = "The name or the password is not right."
#: A process checks one password at a time.
_CHECK = Lock()
#: The most logins that are checked or wait for that, in a process and of one address, and their seconds.
MOST_CHECKS, MOST_CHECKS_OF_ADDRESS = 8, 4
_LONGEST_WAIT = 3.0
_checks: list[str] = []
_checks_lock = Lock()


class OperatorRole(StrEnum):
    """The permissions of an operator. Each role includes those before it."""

    #: See everything but personal data.
    READ = "read"
    #: Control batches and suppliers, skip accounts, and see personal data.
    OPERATE = "operate"
    #: Set up organisations, keys and operators.
    ADMINISTER = "administer"

    def includes(self, other: "OperatorRole") -> bool:
        """Return whether this role may do what `other` may."""
        roles = list(OperatorRole)
        return roles.index(self) >= roles.index(other)


@dataclass(frozen=True, slots=True)
class AuthenticatedOperator:
    """An operator who has logged in."""

    id: int
    name: str
    role: OperatorRole
    #: The organisations that the operator can see and change, or None for all.
    organisation_ids: frozenset[int] | None


def create_operator(
    session: Session, name: str, role: OperatorRole, *, organisations: Collection[str] = ()
) -> None:
    """Create an operator, who can log in once a password is set.

    `organisations` names the organisations that the operator is limited to. If it is empty, there is no
    limit. Raise NameInvalidError, NameTakenError and OrganisationNotFoundError.
    """
    check_name(name, "name of an operator")
    bound = [get_organisation(session, organisation).id for organisation in organisations]
    operator = Operator(name=name, role=role)
    with unique_name(session, "uq_operator_name", f"Operator {name!r} exists already."):
        session.add(operator)
    session.add_all(OperatorOrganisation(operator_id=operator.id, organisation_id=it) for it in set(bound))
    details = {"role": role.value, "organisations": sorted(set(bound))}
    record(session, AuditAction.OPERATOR_CREATED, "operator", name, details=details)


def list_operators(session: Session) -> Sequence[tuple[Operator, list[str]]]:
    """Return all operators by name, each with the names of the organisations that they are limited to."""
    bound: dict[int, list[str]] = {}
    names = select(OperatorOrganisation.operator_id, Organisation.name).join(Organisation)
    for operator_id, organisation_name in session.execute(names.order_by(Organisation.name)):
        bound.setdefault(operator_id, []).append(organisation_name)
    operators = session.scalars(select(Operator).order_by(Operator.name)).all()
    return [(operator, bound.get(operator.id, [])) for operator in operators]


def set_operator_role(session: Session, name: str, role: OperatorRole) -> None:
    """Give an operator another role. Raise OperatorNotFoundError."""
    operator = _get(session, name)
    details = {"role": role.value, "before": operator.role}
    operator.role = role
    record(session, AuditAction.OPERATOR_ROLE_SET, "operator", name, details=details)


def set_operator_password(session: Session, name: str, password: str) -> None:
    """Set the password of an operator, and end their sessions.

    Raise OperatorNotFoundError and PasswordInvalidError.
    """
    if not _SHORTEST <= len(password) <= _LONGEST:
        raise errors.PasswordInvalidError
    operator = _get(session, name)
    operator.password_hash = password_hasher().hash(password)
    _end_sessions(session, operator, "password_set")
    record(session, AuditAction.OPERATOR_PASSWORD_SET, "operator", name)


def disable_operator(session: Session, name: str) -> Operator:
    """Disable the logins of an operator, and end their sessions. Disabling twice changes nothing.

    Raise OperatorNotFoundError.
    """
    operator = _get(session, name)
    if operator.disabled_at is None:
        operator.disabled_at = datetime.now(UTC)
        _end_sessions(session, operator, "operator_disabled")
        record(session, AuditAction.OPERATOR_DISABLED, "operator", name)
    return operator


def authenticate_operator(sessions: sessionmaker[Session], name: str, password: str) -> AuthenticatedOperator:
    """Return the operator with this name and password.

    Raise UnauthenticatedError, with the same message and timing whatever is wrong, and ThrottledError if too
    many passwords are being checked. The caller throttles attempts and records refusals (`refusals`).

    Checking a password is slow, and takes 64 MiB of memory and one processor. No database connection is held
    in the meantime. The process checks one password at a time, and few logins wait for that.
    """
    with _checking_a_password():
        with sessions.begin() as session:
            operator = _find_usable(session, name)
            # The same work for an unknown name, so that the response time reveals nothing.
            stored = str(operator.password_hash) if operator else _nobodys_hash()
        if not _matches(stored, password) or operator is None:
            raise errors.UnauthenticatedError(_REFUSED)
        renewed = password_hasher().hash(password) if password_hasher().check_needs_rehash(stored) else stored
    with sessions.begin() as session:
        operator = _find_usable(session, name)
        if operator is None or operator.password_hash != stored:  # changed meanwhile
            raise errors.UnauthenticatedError(_REFUSED)
        operator.password_hash = renewed
        return _admit(session, operator)


def _find_usable(session: Session, name: str) -> Operator | None:
    """Return the operator with this name if they may log in with a password, otherwise None."""
    operator = _find(session, name)
    return operator if operator and operator.password_hash and not operator.disabled_at else None


@contextmanager
def _checking_a_password() -> Iterator[None]:
    client = client_of(current_origin().address)
    with _checks_lock:
        if len(_checks) >= MOST_CHECKS or _checks.count(client) >= MOST_CHECKS_OF_ADDRESS:
            raise errors.ThrottledError(1)
        _checks.append(client)
    try:
        if not _CHECK.acquire(timeout=_LONGEST_WAIT):
            raise errors.ThrottledError(1)
        try:
            yield
        finally:
            _CHECK.release()
    finally:
        with _checks_lock:
            _checks.remove(client)


def admit_operator(session: Session, name: str) -> AuthenticatedOperator:
    """Return the operator with this name, authenticated by an identity provider.

    Raise UnauthenticatedError if there is no such operator, or if they are disabled.
    """
    operator = _find(session, name)
    if operator is None or operator.disabled_at is not None:
        raise errors.UnauthenticatedError("The identity provider knows you, but you are no operator here.")
    return _admit(session, operator)


def _admit(session: Session, operator: Operator) -> AuthenticatedOperator:
    operator.last_login_at = datetime.now(UTC)
    # The client had not been authenticated until now.
    with acting_as(replace(current_origin(), kind=ActorKind.OPERATOR, actor=operator.name)):
        record(session, AuditAction.OPERATOR_LOGGED_IN, "operator", operator.name)
    return authenticated(session, operator)


def authenticated(session: Session, operator: Operator) -> AuthenticatedOperator:
    """Return an operator who has logged in, with what they may do now."""
    bound = session.scalars(
        select(OperatorOrganisation.organisation_id).where(OperatorOrganisation.operator_id == operator.id)
    ).all()
    return AuthenticatedOperator(
        operator.id, operator.name, OperatorRole(operator.role), frozenset(bound) if bound else None
    )


def _end_sessions(session: Session, operator: Operator, reason: str) -> None:
    running = update(OperatorSession).where(
        OperatorSession.operator_id == operator.id, OperatorSession.ended_at.is_(None)
    )
    session.execute(running.values(ended_at=datetime.now(UTC), end_reason=reason))


def _find(session: Session, name: str) -> Operator | None:
    return session.scalar(select(Operator).where(Operator.name == name)) if is_name(name) else None


def _get(session: Session, name: str) -> Operator:
    operator = _find(session, name)
    if operator is None:
        raise errors.OperatorNotFoundError(found=name)
    return operator


@cache
def password_hasher() -> PasswordHasher:
    # Argon2id with the low-memory parameters of RFC 9106, but one lane: more would take all processors.
    return PasswordHasher(parallelism=1)


@cache
def _nobodys_hash() -> str:
    return password_hasher().hash("nobody has this password")


def _matches(stored: str, password: str) -> bool:
    try:
        return len(password) <= _LONGEST and password_hasher().verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
