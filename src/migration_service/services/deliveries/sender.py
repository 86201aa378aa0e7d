"""Sending messages: one thread claims and records, many send, and none of them holds a transaction."""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.log import request_id
from migration_service.services.deliveries.claims import QUICK, SLOW, Lanes, Outbox, Outcome, Sent
from migration_service.states import DeliveryFailure

logger = logging.getLogger(__name__)

#: Seconds between two looks for messages that are due, if nothing happens.
PAUSE = 0.2
#: The same while there is something to send.
_LOOK_AGAIN = 0.02


class Sender:
    """Sends the messages of some outboxes. They stay on their way between two calls of `run`."""

    def __init__(self, sessions: sessionmaker[Session], outboxes: Sequence[Outbox[Any]]) -> None:
        self._sessions = sessions
        self._outboxes = outboxes
        self._lanes = Lanes()
        self._threads = ThreadPoolExecutor(QUICK + SLOW, "deliveries")
        self._sent: queue.SimpleQueue[tuple[Outbox[Any], Sent[Any]]] = queue.SimpleQueue()
        self._runs = threading.Event()
        self._recorder = threading.Thread()
        self._ended_later = 0

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way, or not recorded yet."""
        return self._lanes.is_busy

    def run(self, seconds: float) -> int:
        """Send what is due, for so many seconds. Return how many attempts have ended since the last run."""
        until = time.monotonic() + seconds
        self._stop_recorder()
        ended, is_busy, self._ended_later = self._ended_later, False, 0
        while (remaining := until - time.monotonic()) > 0:
            ended += self._record(min(remaining, _LOOK_AGAIN if is_busy else PAUSE))
            is_busy = self._claim()
        return ended

    def record_later(self) -> None:
        """Let a thread record what ends until the next `run`: another process may be the next that sends."""

        def record() -> None:
            while self._lanes.is_busy and not self._runs.is_set():
                try:
                    self._ended_later += self._record(PAUSE)
                except SQLAlchemyError as error:  # what could not be recorded is sent again
                    logger.warning("Attempts were not recorded: %s", type(error).__name__)

        self._runs.clear()
        self._recorder = threading.Thread(target=record, daemon=True)
        self._recorder.start()

    def _stop_recorder(self) -> None:
        self._runs.set()
        if self._recorder.ident is not None:
            self._recorder.join()

    def finish(self, seconds: float) -> None:
        """Claim nothing more, and record what ends within so many seconds."""
        until = time.monotonic() + seconds
        self._stop_recorder()
        while self._lanes.is_busy and (remaining := until - time.monotonic()) > 0:
            self._record(remaining)
        self._threads.shutdown(wait=False)

    def _claim(self) -> bool:
        found = 0
        for outbox in self._outboxes:
            rooms = self._lanes.rooms()
            if rooms.free <= 0:
                break
            with self._sessions.begin() as session:
                claims = outbox.claim(session, rooms)
            for it in claims:
                self._lanes.begin(it)
                self._threads.submit(self._send, outbox, it)
            found += len(claims)
        return found > 0

    def _record(self, seconds: float) -> int:
        """Record what was sent. Wait up to so many seconds for the first."""
        try:
            ended = [self._sent.get(timeout=seconds)]
        except queue.Empty:
            return 0
        while not self._sent.empty():
            ended.append(self._sent.get_nowait())
        for _, sent in ended:  # what cannot be recorded is sent again when its lease has ended
            self._lanes.end(sent.claim, is_delivered=sent.outcome.failure is None)
            _log(sent)
        for outbox in self._outboxes:
            if of_outbox := [sent for its, sent in ended if its is outbox]:
                with self._sessions.begin() as session:
                    outbox.record(session, of_outbox)
        return len(ended)

    def _send(self, outbox: Outbox[Any], claim: Any) -> None:
        request_id.set(claim.request_id)
        at, begun = datetime.now(UTC), time.monotonic()
        try:
            outcome = outbox.send(claim)
        except Exception:  # the thread has nobody to tell
            logger.exception("Message %s to %s failed", claim.id, claim.destination)
            outcome = Outcome(failure=DeliveryFailure.CONNECTION)
        self._sent.put((outbox, Sent(claim, at, time.monotonic() - begun, outcome)))


def _log(sent: Sent[Any]) -> None:
    claim, failure = sent.claim, sent.outcome.failure
    logger.info(
        "Message %s to %s %s",
        claim.message_id,
        claim.destination,
        f"failed: {failure}" if failure else "sent",
        extra={
            "delivery_id": claim.id,
            "status": sent.outcome.status,
            "duration_ms": round(sent.seconds * 1_000, 1),
            "request_id": claim.request_id,
        },
    )
