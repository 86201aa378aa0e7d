"""Sending deliveries: one thread claims and records, many threads send, and none of them holds a transaction.

A slow endpoint must not take the threads of others. Each has a width, the number of messages that it is sent
at the same time. It begins with one, doubles with each quick success, and is one again after a failure or a
slow answer. Messages that have taken longer than `SLOW_SECONDS` are counted apart: however many of them there
are, `QUICK` others can be on their way, until `SLOW` threads hang.
"""

import logging
import queue
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import SettingsError
from migration_service.destinations.protocol import Destination, Outcome
from migration_service.services.webhooks.claims import (
    LEASE_SECONDS,
    Attempted,
    Claim,
    claim,
    claim_ordered,
    record_attempts,
)
from migration_service.services.webhooks.looks import Looks
from migration_service.services.webhooks.messages import compose
from migration_service.services.webhooks.secrets import Seal
from migration_service.states import DeliveryFailure, DeliveryLane, EndpointKind, EventFormat

logger = logging.getLogger(__name__)

#: Seconds after which an answer is slow.
SLOW_SECONDS = 1.0
#: The most messages of a process on their way that are not slow yet, and that are.
QUICK, SLOW = 96, 288
#: The most messages on their way to one endpoint.
WIDEST = 32
#: Seconds between two looks for deliveries that are due, if nothing happens.
PAUSE = 0.2
#: The same while there is something to send.
_LOOK_AGAIN = 0.02
#: Seconds that an attempt takes at most, with a slow name server.
_LONGEST_ATTEMPT = 40.0


class Lanes:
    """The messages on their way to each endpoint, and how many more each may be sent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[UUID, dict[int, float]] = {}
        self._widths: dict[UUID, int] = {}

    def begin(self, endpoint_id: UUID, delivery_id: int) -> None:
        """Note that a message is on its way."""
        self._begun.setdefault(endpoint_id, {})[delivery_id] = self._clock()

    def end(self, endpoint_id: UUID, delivery_id: int, *, is_delivered: bool) -> None:
        """Note what came of it."""
        underway = self._begun[endpoint_id]
        seconds = self._clock() - underway.pop(delivery_id)
        if not underway:
            del self._begun[endpoint_id]
        width = self._widths.get(endpoint_id, 1)
        self._widths[endpoint_id] = min(2 * width, WIDEST) if is_delivered and seconds < SLOW_SECONDS else 1

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way."""
        return bool(self._begun)

    def free(self) -> int:
        """Return how many more messages may be on their way altogether."""
        since = self._clock() - SLOW_SECONDS
        ages = [begun < since for underway in self._begun.values() for begun in underway.values()]
        slow = sum(ages)
        return min(QUICK - (len(ages) - slow), QUICK + SLOW - len(ages))

    def rooms(self) -> dict[UUID, int]:
        """Return how many more messages each endpoint may be sent. Others may be sent one."""
        since = self._clock() - SLOW_SECONDS
        rooms = dict(self._widths)
        for endpoint_id, underway in self._begun.items():
            if min(underway.values()) < since:
                rooms[endpoint_id] = 0
            else:
                rooms[endpoint_id] = max(0, rooms.get(endpoint_id, 1) - len(underway))
        return rooms


@dataclass(frozen=True, slots=True)
class _Sent:
    """What a thread reports: an attempt, or that it has ended a run of an ordered endpoint."""

    claim: Claim
    attempted: Attempted | None


class Sender:
    """Sends deliveries of a process. Messages stay on their way between two calls of `run`."""

    def __init__(
        self, sessions: sessionmaker[Session], destinations: Mapping[EndpointKind, Destination], seal: Seal
    ) -> None:
        self._sessions = sessions
        self._destinations = destinations
        self._seal = seal
        self._lanes = Lanes()
        self._looks = Looks()
        self._threads = ThreadPoolExecutor(QUICK + SLOW, "webhooks")
        self._sent: queue.SimpleQueue[_Sent] = queue.SimpleQueue()

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way, or not recorded yet."""
        return self._lanes.is_busy

    def run(self, seconds: float) -> int:
        """Send what is due, for so many seconds. Return the number of attempts that have ended meanwhile."""
        until = time.monotonic() + seconds
        ended, is_busy = 0, False
        while (remaining := until - time.monotonic()) > 0:
            ended += self._record(min(remaining, _LOOK_AGAIN if is_busy else PAUSE))
            is_busy = self._claim()
        return ended

    def finish(self, seconds: float) -> None:
        """Claim nothing more, and record what ends within so many seconds."""
        until = time.monotonic() + seconds
        while self._lanes.is_busy and (remaining := until - time.monotonic()) > 0:
            self._record(remaining)
        self._threads.shutdown(wait=False)

    def _claim(self) -> bool:
        free = self._lanes.free()
        if free <= 0:
            return False
        look, rooms = self._looks.begin(), self._lanes.rooms()
        with self._sessions.begin() as session:
            claims = claim(session, rooms, limit=free, look=look)
        self._looks.end(look, [(it.endpoint_id, it.due_at) for it in claims], rooms, limit=free)
        for it in claims:
            self._lanes.begin(it.endpoint_id, it.id)
            self._threads.submit(self._send, it)
        runs: list[list[Claim]] = []
        if free > len(claims):
            with self._sessions.begin() as session:
                runs = claim_ordered(session, limit=free - len(claims))
        for run in runs:
            self._lanes.begin(run[0].endpoint_id, run[0].id)
            self._threads.submit(self._send_in_order, run)
        return bool(claims or runs)

    def _record(self, seconds: float) -> int:
        """Record what was sent. Wait up to so many seconds for the first."""
        try:
            sent = [self._sent.get(timeout=seconds)]
        except queue.Empty:
            return 0
        while not self._sent.empty():
            sent.append(self._sent.get_nowait())
        attempted = [it.attempted for it in sent if it.attempted]
        ended = [it.claim.endpoint_id for it in sent if it.attempted is None]
        try:
            with self._sessions.begin() as session:
                record_attempts(session, attempted, ordered=ended)
        finally:  # what could not be recorded is sent again when its lease has ended
            for it in sent:
                if it.attempted is None or it.claim.lane != DeliveryLane.ORDERED:
                    delivered = it.attempted is None or it.attempted.outcome.failure is None
                    self._lanes.end(it.claim.endpoint_id, it.claim.id, is_delivered=delivered)
        return len(attempted)

    def _send(self, claimed: Claim) -> bool:
        """Send a delivery and report the attempt. Return whether it was delivered."""
        at, begun = datetime.now(UTC), time.monotonic()
        try:
            outcome = self._attempt(claimed)
        except Exception:  # the thread has nobody to tell
            logger.exception("Delivery %s of webhook %s failed", claimed.id, claimed.endpoint_id)
            outcome = Outcome(failure=DeliveryFailure.CONNECTION)
        self._sent.put(_Sent(claimed, Attempted(claimed, at, time.monotonic() - begun, outcome)))
        return outcome.failure is None

    def _send_in_order(self, run: list[Claim]) -> None:
        """Send deliveries of an ordered endpoint, until one fails or the lease could end during the next."""
        until = time.monotonic() + LEASE_SECONDS - _LONGEST_ATTEMPT
        for it in run:
            if time.monotonic() > until or not self._send(it):
                break
        self._sent.put(_Sent(run[0], None))

    def _attempt(self, claimed: Claim) -> Outcome:
        try:
            secrets = [self._seal.open(it) for it in claimed.sealed]
            credentials = self._seal.open(claimed.credentials) if claimed.credentials else None
        except SettingsError as error:
            logger.error("Webhook %s: %s", claimed.endpoint_id, error)
            return Outcome(failure=DeliveryFailure.SETTINGS)
        event_id, event_format = str(claimed.event_id), EventFormat(claimed.format)
        message = compose(claimed.url, event_id, claimed.body, event_format, secrets, credentials=credentials)
        return self._destinations[EndpointKind(claimed.kind)].send(message)
