"""What adapters of destinations are given, and what they answer."""

from collections.abc import Mapping
from dataclasses import dataclass

from migration_service.states import DeliveryFailure


@dataclass(frozen=True, slots=True)
class Message:
    """An event for one endpoint."""

    url: str
    headers: Mapping[str, str]
    body: bytes


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
