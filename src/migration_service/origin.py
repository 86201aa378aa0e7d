"""The origin of an act for the audit and for rows: its actor, address and request.

The edges set it: the web application for each request, a command for itself, a worker for the batch that it
processes. Services read it when they write.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """The kind of an actor."""

    #: An organisation's API key, through one of its tokens.
    API_KEY = "api_key"
    #: An operator who logged in.
    OPERATOR = "operator"
    #: A person who runs a command, by the name of their account on the machine.
    SYSTEM_USER = "system_user"
    #: The service itself.
    SERVICE = "service"
    #: An unauthenticated client.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The actor, address and request of an act."""

    kind: ActorKind
    #: The prefix of the key, or the name of the operator or of the system user.
    actor: str | None = None
    api_key_id: int | None = None
    organisation_id: int | None = None
    #: The import suppliers that the actor is limited to, or None for no limit.
    import_supplier_ids: frozenset[int] | None = None
    address: str | None = None
    request_id: str | None = None

    @property
    def who(self) -> str | None:
        """Return the actor as people are shown who decided."""
        return f"API key {self.actor}" if self.api_key_id else self.actor

    def trace(self) -> dict[str, int | str | None]:
        """Return the values of the origin columns of a row, which replace an audit entry."""
        return {"api_key_id": self.api_key_id, "request_id": self.request_id, "address": self.address}


SERVICE = Origin(kind=ActorKind.SERVICE)

_origin: ContextVar[Origin] = ContextVar("origin", default=SERVICE)


def current_origin() -> Origin:
    """Return the current origin, which is the service itself unless an edge has set another one."""
    return _origin.get()


def set_origin(origin: Origin) -> None:
    """Set the current origin. A thread that serves requests does this at the start of each."""
    _origin.set(origin)


@contextmanager
def acting_as(origin: Origin) -> Iterator[None]:
    """Set the current origin within this block."""
    before = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(before)


def fold_names(*names: str | None) -> set[str]:
    """Return the names of persons as they are compared: case and spaces make no other person."""
    return {" ".join(name.split()).casefold() for name in names if name}
