"""Taking deliveries that are due, and recording what came of them.

Nothing is locked while a message is sent. A claim postpones a delivery by `LEASE_SECONDS` and is committed.
If its worker dies, another takes the delivery after that, so an event is delivered at least once. Neither
commit waits for the disk: a lost one only means that a message is sent again.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_service.destinations.protocol import Outcome
from migration_service.errors import EventCursorExpiredError
from migration_service.services.events.consumers import advance_consumer, read_consumer
from migration_service.services.events.reading import read_events
from migration_service.services.webhooks.endpoints import consumer_of
from migration_service.services.webhooks.looks import Look
from migration_service.services.webhooks.switching import switch_off
from migration_service.states import DeliveryFailure, DeliveryLane, DeliveryState, EndpointOff

#: Seconds after which a worker that took a delivery counts as dead.
LEASE_SECONDS = 90
#: Seconds between attempts, as Standard Webhooks advises: ten attempts over three days.
PAUSES = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: The number of attempts after which a delivery has failed.
ATTEMPTS = len(PAUSES) + 1
#: The longest pause that an endpoint can ask for.
LONGEST_PAUSE = 86_400.0
#: The largest number of deliveries that an ordered endpoint is sent under one lease.
RUN = 20


@dataclass(frozen=True, slots=True)
class Claim:
    """A delivery to send, with what its message needs."""

    id: int
    endpoint_id: UUID
    lane: str
    #: The number of earlier attempts.
    attempts: int
    event_id: UUID
    body: str
    kind: str
    url: str
    format: str
    #: The stored secrets, the current one first.
    sealed: Sequence[str]
    #: The stored user and password of a queue.
    credentials: str | None
    #: When it became due.
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Attempted:
    """A claim that was sent, and what came of it."""

    claim: Claim
    at: datetime
    seconds: float
    outcome: Outcome

    @property
    def number(self) -> int:
        """The number of this attempt, from 1."""
        return self.claim.attempts + 1

    @property
    def state(self) -> DeliveryState:
        """The state of the delivery after it."""
        if self.outcome.failure is None:
            return DeliveryState.DELIVERED
        is_last = self.number >= ATTEMPTS or self.outcome.failure is DeliveryFailure.GONE
        return DeliveryState.FAILED if is_last else DeliveryState.PENDING

    @property
    def pause(self) -> float:
        """Seconds until the next attempt, varied by a fifth, so that deliveries do not stay together."""
        if self.state is not DeliveryState.PENDING:
            return 0.0
        usual = PAUSES[self.number - 1] * (0.8 + 0.4 * secrets.SystemRandom().random())
        return max(usual, self.asked_pause)

    @property
    def asked_pause(self) -> float:
        """Seconds for which the endpoint asked for no messages."""
        asked = self.outcome.retry_after if self.outcome.failure else None
        return min(asked or 0.0, LONGEST_PAUSE)


def claim(
    session: Session, rooms: Mapping[UUID, int], *, limit: int, look: Look | None = None
) -> list[Claim]:
    """Take up to `limit` deliveries that are due, in any order. Endpoints take turns.

    An endpoint gets at most as many as `rooms` says, or one if it is not there. `look` says where to look,
    everywhere if it is None. The caller commits before it sends them.
    """
    _do_not_wait(session)
    of_endpoints = look.of_endpoints if look else {}
    known = list({**rooms, **of_endpoints})
    values = {
        "ids": known,
        "rooms": [rooms.get(it, 1) for it in known],
        "times": [of_endpoints.get(it) for it in known],
        "since": look and look.since,
        "limit": limit,
        "lease": LEASE_SECONDS,
    }
    return [Claim(*row) for row in session.execute(_CLAIM, values)]


def claim_ordered(session: Session, *, limit: int) -> list[list[Claim]]:
    """Take the next deliveries of up to `limit` ordered endpoints. Each list is sent until one fails.

    The worker has a lease on the endpoint, so no other sends to it. An endpoint whose first delivery waits
    for its next attempt is left out: later events wait for it.
    """
    _do_not_wait(session)
    runs = []
    for row in session.execute(_FREE_ORDERED, {"limit": limit}).all():
        _read_feed(session, row.id, row.organisation_id, row.event_types, row.import_supplier_ids)
        found = [Claim(*it) for it in session.execute(_CLAIM_RUN, {"endpoint_id": row.id, "run": RUN})]
        if found:
            session.execute(_LEASE, {"endpoint_id": row.id, "lease": LEASE_SECONDS})
            runs.append(found)
    return runs


def _read_feed(
    session: Session,
    endpoint_id: UUID,
    organisation_id: int,
    types: Sequence[str] | None,
    import_supplier_ids: Sequence[int] | None,
) -> None:
    """Write deliveries of the next events of the feed, if fewer than a run are waiting."""
    if len(session.execute(_WAITING, {"endpoint_id": endpoint_id, "run": RUN}).all()) >= RUN:
        return
    name = consumer_of(endpoint_id)
    after = read_consumer(session, organisation_id, name)
    wanted: dict[str, Any] = {"types": types, "import_supplier_ids": import_supplier_ids, "limit": RUN}
    try:
        page = read_events(session, organisation_id, after, **wanted)
    except EventCursorExpiredError:  # it was switched off for so long that events were removed
        page = read_events(session, organisation_id, None, **wanted)
    if page.events:
        values = {
            "endpoint_id": endpoint_id,
            "event_ids": [it.position.id for it in page.events],
            "types": [it.type for it in page.events],
            "bodies": [it.body for it in page.events],
        }
        session.execute(_ADD_ORDERED, values)
    if page.position != after:
        advance_consumer(session, organisation_id, name, page.position)


def record_attempts(
    session: Session, attempted: Sequence[Attempted], *, ordered: Sequence[UUID] = ()
) -> None:
    """Record attempts and their consequences, and end the leases of these `ordered` endpoints."""
    _do_not_wait(session)
    _lock(session, {it.claim.endpoint_id for it in attempted if it.outcome.failure} | {*ordered})
    session.execute(
        _RECORD,
        {
            "ids": [it.claim.id for it in attempted],
            "numbers": [it.number for it in attempted],
            "moments": [it.at for it in attempted],
            "times": [round(it.seconds * 1_000) for it in attempted],
            "statuses": [it.outcome.status for it in attempted],
            "failures": [it.outcome.failure for it in attempted],
            "answers": [it.outcome.answer for it in attempted],
            "states": [it.state for it in attempted],
            "pauses": [it.pause for it in attempted],
        },
    )
    if ordered:
        session.execute(_END_LEASES, {"ids": list(ordered)})
    _note_health(session, attempted)


def _note_health(session: Session, attempted: Sequence[Attempted]) -> None:
    # Replays tell nothing about whether events arrive.
    live = [it for it in attempted if it.claim.lane != DeliveryLane.REPLAY]
    working = {it.claim.endpoint_id for it in live if it.outcome.failure is None}
    failing = {it.claim.endpoint_id for it in live} - working
    if working:
        session.execute(_WORKS, {"ids": list(working)})
    if failing:
        session.execute(_FAILS, {"ids": list(failing)})
    pauses: dict[UUID, float] = {}
    for it in attempted:
        if it.asked_pause:
            pauses[it.claim.endpoint_id] = max(it.asked_pause, pauses.get(it.claim.endpoint_id, 0.0))
    if pauses:
        session.execute(_HOLD, {"ids": list(pauses), "pauses": list(pauses.values())})
    for endpoint_id in {it.claim.endpoint_id for it in live if it.outcome.failure is DeliveryFailure.GONE}:
        switch_off(session, endpoint_id, EndpointOff.GONE)


def _do_not_wait(session: Session) -> None:
    session.execute(text("SET LOCAL synchronous_commit = off"))


def _lock(session: Session, endpoint_ids: set[UUID]) -> None:
    """Lock endpoints in the same order in every worker, because each may change several."""
    if endpoint_ids:
        session.execute(_LOCK, {"ids": list(endpoint_ids)})


_MESSAGE = """
    SELECT claimed.id, claimed.endpoint_id, claimed.lane, claimed.attempts, claimed.event_id, claimed.body,
           endpoint.kind, endpoint.url, endpoint.format,
           ARRAY(SELECT sealed FROM webhook_secret AS secret
                 WHERE secret.endpoint_id = endpoint.id
                   AND (secret.expires_at IS NULL OR secret.expires_at > clock_timestamp())
                 ORDER BY secret.id DESC) AS sealed,
           endpoint.credentials, claimed.due_at
    FROM claimed JOIN webhook_endpoint AS endpoint ON endpoint.id = claimed.endpoint_id
    ORDER BY claimed.id"""

_CLAIM = text(f"""
    WITH lane AS MATERIALIZED (
        SELECT endpoint.id, lane.name, coalesce(known.room, 1) AS room,
               coalesce(known.since, CAST(:since AS timestamptz), '-infinity') AS since
        FROM webhook_endpoint AS endpoint
        LEFT JOIN unnest(CAST(:ids AS uuid[]), CAST(:rooms AS integer[]), CAST(:times AS timestamptz[]))
            AS known (id, room, since) ON known.id = endpoint.id
        CROSS JOIN (VALUES ('{DeliveryLane.LIVE}'), ('{DeliveryLane.REPLAY}')) AS lane (name)
        WHERE endpoint.removed_at IS NULL AND coalesce(known.room, 1) > 0
          AND (endpoint.held_until IS NULL OR endpoint.held_until <= clock_timestamp())
          AND (endpoint.disabled_at IS NULL OR lane.name = '{DeliveryLane.REPLAY}')
    ), due AS (
        SELECT found.id, found.next_attempt_at AS due_at, lane.room,
               row_number() OVER (PARTITION BY lane.id ORDER BY found.next_attempt_at, found.id) AS turn
        FROM lane CROSS JOIN LATERAL (
            SELECT delivery.id, delivery.next_attempt_at FROM webhook_delivery AS delivery
            WHERE delivery.endpoint_id = lane.id AND delivery.lane = lane.name
              AND delivery.state = '{DeliveryState.PENDING}'
              AND delivery.next_attempt_at BETWEEN lane.since AND clock_timestamp()
            ORDER BY delivery.next_attempt_at LIMIT lane.room FOR UPDATE SKIP LOCKED) AS found
    ), postponed AS (
        UPDATE webhook_delivery AS delivery
        SET next_attempt_at = clock_timestamp() + make_interval(secs => :lease)
        WHERE id = ANY (ARRAY(SELECT id FROM due WHERE turn <= room ORDER BY turn LIMIT :limit))
        RETURNING id, endpoint_id, lane, attempts, event_id, body
    ), claimed AS (
        SELECT postponed.*, due.due_at FROM postponed JOIN due ON due.id = postponed.id
    )
    {_MESSAGE}
""")

_LOCK = text(
    "SELECT FROM webhook_endpoint WHERE id = ANY (CAST(:ids AS uuid[])) ORDER BY id FOR NO KEY UPDATE"
)

# A worker whose lease had ended may come late. Then only its success counts.
_RECORD = text(f"""
    WITH attempted AS (
        SELECT * FROM unnest(
            CAST(:ids AS bigint[]), CAST(:numbers AS smallint[]), CAST(:moments AS timestamptz[]),
            CAST(:times AS integer[]), CAST(:statuses AS smallint[]), CAST(:failures AS text[]),
            CAST(:answers AS text[]), CAST(:states AS text[]), CAST(:pauses AS float[]))
            AS given (id, number, at, milliseconds, status, error, answer, state, pause)
    ), noted AS (
        INSERT INTO webhook_attempt (delivery_id, number, at, milliseconds, status, error, answer)
        SELECT id, number, at, milliseconds, status, error, answer FROM attempted
        ON CONFLICT DO NOTHING
    )
    UPDATE webhook_delivery AS delivery
    SET attempts = greatest(delivery.attempts, attempted.number), state = attempted.state,
        settled_at = CASE WHEN attempted.state <> '{DeliveryState.PENDING}' THEN clock_timestamp() END,
        next_attempt_at = clock_timestamp() + make_interval(secs => attempted.pause)
    FROM attempted
    WHERE delivery.id = attempted.id AND delivery.state = '{DeliveryState.PENDING}'
      AND (attempted.state = '{DeliveryState.DELIVERED}' OR delivery.attempts = attempted.number - 1)
""")

_WORKS = text("""
    UPDATE webhook_endpoint SET failing_since = NULL, last_failed_at = NULL
    WHERE id = ANY (CAST(:ids AS uuid[])) AND failing_since IS NOT NULL
""")
_FAILS = text("""
    UPDATE webhook_endpoint
    SET failing_since = coalesce(failing_since, clock_timestamp()), last_failed_at = clock_timestamp()
    WHERE id = ANY (CAST(:ids AS uuid[]))
""")
_HOLD = text("""
    UPDATE webhook_endpoint AS endpoint
    SET held_until = greatest(held_until, clock_timestamp() + make_interval(secs => asked.pause))
    FROM unnest(CAST(:ids AS uuid[]), CAST(:pauses AS float[])) AS asked (id, pause)
    WHERE endpoint.id = asked.id
""")
_END_LEASES = text("UPDATE webhook_endpoint SET leased_until = NULL WHERE id = ANY (CAST(:ids AS uuid[]))")


_FREE_ORDERED = text(f"""
    SELECT endpoint.id, organisation_id, event_types, import_supplier_ids
    FROM webhook_endpoint AS endpoint
    WHERE is_ordered AND disabled_at IS NULL AND removed_at IS NULL
      AND (held_until IS NULL OR held_until <= clock_timestamp())
      AND (leased_until IS NULL OR leased_until <= clock_timestamp())
      AND coalesce((
          SELECT next_attempt_at FROM webhook_delivery
          WHERE endpoint_id = endpoint.id AND lane = '{DeliveryLane.ORDERED}'
            AND state = '{DeliveryState.PENDING}'
          ORDER BY id LIMIT 1) <= clock_timestamp(), true)
    LIMIT :limit FOR NO KEY UPDATE OF endpoint SKIP LOCKED
""")
_HEAD = f"""
    SELECT id FROM webhook_delivery
    WHERE endpoint_id = :endpoint_id AND lane = '{DeliveryLane.ORDERED}' AND state = '{DeliveryState.PENDING}'
    ORDER BY id LIMIT :run"""
_WAITING = text(_HEAD)
_ADD_ORDERED = text(f"""
    INSERT INTO webhook_delivery (endpoint_id, event_id, event_type, body, lane)
    SELECT :endpoint_id, added.id, added.type, added.body, '{DeliveryLane.ORDERED}'
    FROM unnest(CAST(:event_ids AS uuid[]), CAST(:types AS text[]), CAST(:bodies AS text[]))
        WITH ORDINALITY AS added (id, type, body, number)
    ORDER BY added.number
""")
_CLAIM_RUN = text(f"""
    WITH claimed AS (
        SELECT id, endpoint_id, lane, attempts, event_id, body, next_attempt_at AS due_at
        FROM webhook_delivery
        WHERE id = ANY (ARRAY({_HEAD}))
    )
    {_MESSAGE}
""")
_LEASE = text("""
    UPDATE webhook_endpoint SET leased_until = clock_timestamp() + make_interval(secs => :lease)
    WHERE id = :endpoint_id
""")
