"""The protocol of the adapters of destinations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from migration_service.states import DeliveryFailure


@dataclass(frozen=True, slots=True)
class Message:
    """An event for one endpoint."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    #: The user and password, as `user:password`, if the destination needs them.
    credentials: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of an attempt to send a message."""

    #: The status of the answer, or None if the destination has none, or did not answer.
    status: int | None = None
    #: Why it failed, or None if the message was delivered.
    failure: DeliveryFailure | None = None
    #: The first characters of the answer.
    answer: str = ""
    #: Seconds for which the destination wants no messages, or None if it did not say.
    retry_after: float | None = None


class Destination(Protocol):
    """A kind of place to which events are sent. Threads share it."""

    def send(self, message: Message) -> Outcome:
        """Send a message, and return what came of it. Every failure is an outcome."""
        ...


def queue_of(url: str) -> str:
    """Return the name of the queue in a URL. Raise ValueError if it has none."""
    given = parse_qs(urlsplit(url).query)
    if list(given) != ["queue"] or len(given["queue"]) != 1:
        raise ValueError("Expected a URL of the form amqps://host/vhost?queue=NAME.")
    return given["queue"][0]
