"""Who acts, from which address and with which request: what the audit and the rows keep of it.

The edges set it: the web application for each request, a command for itself, a worker for the batch that it
works on. Services read it when they write.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class ActorKind(StrEnum):
    """What kind of actor it is."""

    #: An organisation's API key, by a token that was obtained with it.
    API_KEY = "api_key"
    #: An operator who logged in.
    OPERATOR = "operator"
    #: Whoever runs a command, by the name of the account on that machine.
    SYSTEM_USER = "system_user"
    #: The service itself.
    SERVICE = "service"
    #: A client that did not prove who it is.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who acts, from where and with which request."""

    kind: ActorKind
    #: The prefix of the key, or the name of the operator or of the system user.
    actor: str | None = None
    api_key_id: int | None = None
    organisation_id: int | None = None
    #: The import suppliers that the actor is limited to; None: no limit.
    import_supplier_ids: frozenset[int] | None = None
    address: str | None = None
    request_id: str | None = None

    def trace(self) -> dict[str, int | str | None]:
        """Return what a row keeps that is written instead of an audit entry."""
        return {"api_key_id": self.api_key_id, "request_id": self.request_id, "address": self.address}


SERVICE = Origin(kind=ActorKind.SERVICE)

_origin: ContextVar[Origin] = ContextVar("origin", default=SERVICE)


def current_origin() -> Origin:
    """Return who acts at this moment; the service itself if no edge said otherwise."""
    return _origin.get()


def set_origin(origin: Origin) -> None:
    """Say who acts from now on. A thread that serves requests does so at the start of each."""
    _origin.set(origin)


@contextmanager
def acting_as(origin: Origin) -> Iterator[None]:
    """Say who acts within this block."""
    before = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(before)
