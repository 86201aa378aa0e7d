"""What a worker takes, sends and records, and how much of it at a time.

A claim postpones a message by `LEASE_SECONDS` and is committed before the message is sent. If its worker
dies, another one takes the message after that, so a message is sent at least once.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, Protocol, TypeVar
from uuid import UUID

from sqlalchemy.orm import Session

from migration_service.states import DeliveryFailure

#: Seconds after which a worker that took a message counts as dead.
LEASE_SECONDS = 90
#: Seconds after which an answer is slow.
SLOW_SECONDS = 1.0
#: The most messages of a process on their way that are not slow yet, and that are.
QUICK, SLOW = 96, 288
#: The most messages on their way to one destination, unless a claim says otherwise.
WIDEST = 32


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A message that this process sends."""

    id: int
    #: The endpoint of a webhook, or the kind of a message to people.
    destination: Hashable
    organisation_id: int
    #: The number of earlier attempts.
    attempts: int
    #: What its receiver knows it by: the header `webhook-id` or `Message-ID`.
    message_id: UUID | str
    #: The request that caused it, or the work of operators, such as `batch` with its id.
    request_id: str | None = None
    #: The most messages on their way to its destination.
    widest: int = WIDEST


C = TypeVar("C", bound=Claim)


@dataclass(frozen=True, slots=True)
class Sent(Generic[C]):
    """A claim that was sent, and what came of it."""

    claim: C
    at: datetime
    seconds: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Rooms:
    """How many more messages may be on their way."""

    #: Altogether.
    free: int
    #: To each destination that was sent something. Others may be sent one.
    of_destinations: Mapping[Hashable, int]
    #: Of each organisation that has messages on their way, and of each other one.
    of_organisations: Mapping[int, int]
    usual: int


class Outbox(Protocol[C]):
    """The recorded messages of one kind."""

    def claim(self, session: Session, rooms: Rooms) -> Sequence[C]:
        """Take messages that are due. The caller commits before it sends them."""
        ...

    def send(self, claim: C) -> Outcome:
        """Send one. Threads do this, without a transaction."""
        ...

    def record(self, session: Session, sent: Sequence[Sent[C]]) -> None:
        """Record what came of them."""
        ...


class Lanes:
    """The messages of a process on their way, and how many more may be.

    A destination begins with one at a time. That doubles with each quick success, and is one again after a
    failure or a slow answer. An organisation may have as many as there are places left for others, so that
    however many organisations send as much as they can, another one finds places.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[tuple[Hashable, int], tuple[float, int]] = {}
        self._widths: dict[Hashable, int] = {}

    def begin(self, claim: Claim) -> None:
        """Note that a message is on its way."""
        self._begun[claim.destination, claim.id] = (self._clock(), claim.organisation_id)

    def end(self, claim: Claim, *, is_delivered: bool) -> None:
        """Note what came of it."""
        begun, _ = self._begun.pop((claim.destination, claim.id))
        is_quick = is_delivered and self._clock() - begun < SLOW_SECONDS
        width = self._widths.get(claim.destination, 1)
        self._widths[claim.destination] = min(2 * width, claim.widest) if is_quick else 1

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way."""
        return bool(self._begun)

    def rooms(self) -> Rooms:
        """Return how many more may be on their way now."""
        since = self._clock() - SLOW_SECONDS
        quick: dict[int, int] = {}
        all_: dict[int, int] = {}
        of_destinations = dict(self._widths)
        slow = set()
        for (destination, _), (begun, organisation_id) in self._begun.items():
            all_[organisation_id] = all_.get(organisation_id, 0) + 1
            of_destinations[destination] = of_destinations.get(destination, 1) - 1
            if begun < since:
                slow.add(destination)
            else:
                quick[organisation_id] = quick.get(organisation_id, 0) + 1
        free_quick = QUICK - sum(quick.values())
        free_all = QUICK + SLOW - len(self._begun)
        return Rooms(
            free=min(free_quick, free_all),
            of_destinations={it: 0 if it in slow else max(0, room) for it, room in of_destinations.items()},
            of_organisations={
                it: min(_share(free_quick, quick.get(it, 0)), _share(free_all, used))
                for it, used in all_.items()
            },
            usual=min(_share(free_quick, 0), _share(free_all, 0)),
        )


def _share(free: int, used: int) -> int:
    """Return how many places an organisation that uses some may take, to have as many as it leaves free."""
    return max(0, (free - used + 1) // 2)
