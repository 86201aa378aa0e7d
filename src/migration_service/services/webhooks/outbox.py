"""The outbox of webhooks: taking deliveries that are due, sending them, and recording what came of them."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session

from migration_payloads.moments import write_moment
from migration_payloads.schemas.json import encode_json
from migration_service.config import SettingsError
from migration_service.outgoing.guarded import GuardedClient
from migration_service.services.deliveries.claims import LEASE_SECONDS, Claim, Outcome, Rooms, Sent
from migration_service.services.events.reading import EVENT_JSON
from migration_service.services.webhooks.deliveries import TEST_TYPE
from migration_service.services.webhooks.posting import post
from migration_service.services.webhooks.secrets import Seal, sign
from migration_service.services.webhooks.switching import switch_off
from migration_service.states import DeliveryFailure, DeliveryState, EndpointOff

#: Seconds between attempts, as Standard Webhooks advises: ten attempts over three days.
PAUSES = (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400)
#: The number of attempts after which a delivery has failed.
ATTEMPTS = len(PAUSES) + 1
#: The longest pause that an endpoint can ask for.
LONGEST_PAUSE = 86_400.0
_FINAL = {DeliveryFailure.GONE, DeliveryFailure.EVENT_REMOVED}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookClaim(Claim):
    """A delivery to send, with what its message needs."""

    event_type: str
    created_at: datetime
    is_replay: bool
    url: str
    #: The event as the feed shows it, or None if it was removed, or is a test.
    body: str | None
    #: The stored secrets, the current one first.
    sealed: Sequence[str]


class Webhooks:
    """The deliveries of events."""

    def __init__(self, client: GuardedClient, seal: Seal) -> None:
        self._client = client
        self._seal = seal

    def claim(self, session: Session, rooms: Rooms) -> Sequence[WebhookClaim]:
        """Take deliveries that are due, in any order. Organisations take turns, and so do their endpoints."""
        _do_not_wait(session)
        endpoints = {it: room for it, room in rooms.of_destinations.items() if isinstance(it, UUID)}
        values = {
            "endpoints": list(endpoints),
            "rooms": list(endpoints.values()),
            "organisations": list(rooms.of_organisations),
            "shares": list(rooms.of_organisations.values()),
            "usual": rooms.usual,
            "limit": rooms.free,
            "lease": LEASE_SECONDS,
        }
        return [WebhookClaim(**row) for row in session.execute(_CLAIM, values).mappings()]

    def send(self, claim: WebhookClaim) -> Outcome:
        """Post a message, signed, as Standard Webhooks defines it."""
        body = _test_event(claim) if claim.event_type == TEST_TYPE else claim.body
        if body is None:
            return Outcome(failure=DeliveryFailure.EVENT_REMOVED)
        try:
            keys = [self._seal.open(it) for it in claim.sealed]
        except SettingsError:
            return Outcome(failure=DeliveryFailure.SETTINGS)
        message_id, timestamp = str(claim.message_id), int(time.time())
        content = body.encode()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "migration-service",
            "Accept-Encoding": "identity",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(content, message_id=message_id, timestamp=timestamp, secrets=keys),
        }
        return post(self._client, claim.url, headers, content)

    def record(self, session: Session, sent: Sequence[Sent[WebhookClaim]]) -> None:
        """Record attempts and their consequences."""
        _do_not_wait(session)
        # In the same order in every worker, because each may change several.
        if failed := {it.claim.destination for it in sent if it.outcome.failure}:
            session.execute(_LOCK, {"ids": list(failed)})
        states = [_state_after(it) for it in sent]
        session.execute(
            _RECORD,
            {
                "ids": [it.claim.id for it in sent],
                "numbers": [it.claim.attempts + 1 for it in sent],
                "moments": [it.at for it in sent],
                "times": [round(it.seconds * 1_000) for it in sent],
                "statuses": [it.outcome.status for it in sent],
                "failures": [it.outcome.failure for it in sent],
                "answers": [it.outcome.answer for it in sent],
                "states": states,
                "pauses": [
                    _pause(it) if state is DeliveryState.PENDING else 0.0
                    for it, state in zip(sent, states, strict=True)
                ],
            },
        )
        _note_health(session, sent)


def _test_event(claim: WebhookClaim) -> str:
    event = {
        "id": str(claim.message_id),
        "type": TEST_TYPE,
        "created_at": write_moment(claim.created_at),
        "import_supplier": None,
        "data": {"webhook_id": str(claim.destination)},
    }
    return encode_json(event).decode()


def _state_after(sent: Sent[WebhookClaim]) -> DeliveryState:
    if sent.outcome.failure is None:
        return DeliveryState.DELIVERED
    is_last = sent.claim.attempts + 1 >= ATTEMPTS or sent.outcome.failure in _FINAL
    return DeliveryState.FAILED if is_last else DeliveryState.PENDING


def _pause(sent: Sent[WebhookClaim]) -> float:
    """Return the seconds until the next attempt, varied by a fifth, so that they do not stay together."""
    usual = PAUSES[sent.claim.attempts] * (0.8 + 0.4 * secrets.SystemRandom().random())
    return max(usual, _asked_pause(sent))


def _asked_pause(sent: Sent[WebhookClaim]) -> float:
    """Return the seconds for which the endpoint asked for no messages."""
    asked = sent.outcome.retry_after if sent.outcome.failure else None
    return min(asked or 0.0, LONGEST_PAUSE)


def _note_health(session: Session, sent: Sequence[Sent[WebhookClaim]]) -> None:
    # Replays tell nothing about whether events arrive, nor does an event that was removed.
    live = [
        it
        for it in sent
        if not it.claim.is_replay and it.outcome.failure is not DeliveryFailure.EVENT_REMOVED
    ]
    working = {it.claim.destination for it in live if it.outcome.failure is None}
    failing = {it.claim.destination for it in live} - working
    if working:
        session.execute(_WORKS, {"ids": list(working)})
    if failing:
        session.execute(_FAILS, {"ids": list(failing)})
    pauses: dict[Any, float] = {}
    for it in sent:
        if pause := _asked_pause(it):
            pauses[it.claim.destination] = max(pause, pauses.get(it.claim.destination, 0.0))
    if pauses:
        session.execute(_HOLD, {"ids": list(pauses), "pauses": list(pauses.values())})
    gone: set[Any] = {it.claim.destination for it in live if it.outcome.failure is DeliveryFailure.GONE}
    for endpoint_id in gone:
        switch_off(session, endpoint_id, EndpointOff.GONE)


def _do_not_wait(session: Session) -> None:
    """Let the commit not wait for the disk: if it is lost, a message is sent again."""
    session.execute(text("SET LOCAL synchronous_commit = off"))


_CLAIM = text(f"""
    WITH lane AS MATERIALIZED (
        SELECT endpoint.id, endpoint.organisation_id, lane.is_replay,
               least(coalesce(known.room, 1), coalesce(owner.share, :usual)) AS room,
               coalesce(owner.share, :usual) AS share
        FROM webhook_endpoint AS endpoint
        LEFT JOIN unnest(CAST(:endpoints AS uuid[]), CAST(:rooms AS integer[])) AS known (id, room)
            ON known.id = endpoint.id
        LEFT JOIN unnest(CAST(:organisations AS bigint[]), CAST(:shares AS integer[])) AS owner (id, share)
            ON owner.id = endpoint.organisation_id
        CROSS JOIN (VALUES (false), (true)) AS lane (is_replay)
        WHERE endpoint.removed_at IS NULL AND coalesce(known.room, 1) > 0
          AND (endpoint.held_until IS NULL OR endpoint.held_until <= clock_timestamp())
          AND (endpoint.disabled_at IS NULL OR lane.is_replay)
    ), due AS (
        SELECT found.id, lane.organisation_id, lane.room, lane.share,
               row_number() OVER (PARTITION BY lane.id ORDER BY found.next_attempt_at, found.id) AS turn
        FROM lane CROSS JOIN LATERAL (
            SELECT delivery.id, delivery.next_attempt_at FROM webhook_delivery AS delivery
            WHERE delivery.endpoint_id = lane.id AND delivery.is_replay = lane.is_replay
              AND delivery.state = '{DeliveryState.PENDING}'
              AND delivery.next_attempt_at <= clock_timestamp()
            ORDER BY delivery.next_attempt_at LIMIT lane.room FOR UPDATE SKIP LOCKED) AS found
    ), fair AS (
        SELECT id, share, row_number() OVER (PARTITION BY organisation_id ORDER BY turn, id) AS place
        FROM due WHERE turn <= room
    ), claimed AS (
        UPDATE webhook_delivery AS delivery
        SET next_attempt_at = clock_timestamp() + make_interval(secs => :lease)
        WHERE id = ANY (ARRAY(SELECT id FROM fair WHERE place <= share ORDER BY place LIMIT :limit))
        RETURNING *
    )
    SELECT claimed.id, claimed.endpoint_id AS destination, claimed.organisation_id, claimed.attempts,
           claimed.event_id AS message_id, claimed.event_type, claimed.created_at, claimed.is_replay,
           endpoint.url, {EVENT_JSON} AS body,
           coalesce(
               (SELECT request_id FROM attempt WHERE attempt.id = CAST(event.data ->> 'attempt_id' AS uuid)),
               'batch ' || (event.data ->> 'batch_id'), 'undo ' || (event.data ->> 'undo_id')) AS request_id,
           ARRAY(SELECT sealed FROM webhook_secret AS secret
                 WHERE secret.endpoint_id = endpoint.id
                   AND (secret.expires_at IS NULL OR secret.expires_at > clock_timestamp())
                 ORDER BY secret.id DESC) AS sealed
    FROM claimed JOIN webhook_endpoint AS endpoint ON endpoint.id = claimed.endpoint_id
    LEFT JOIN event ON event.organisation_id = claimed.organisation_id
        AND event.generation = claimed.generation AND event.transaction_id = claimed.transaction_id
        AND event.id = claimed.event_id
    LEFT JOIN import_supplier AS supplier ON supplier.id = event.import_supplier_id
    ORDER BY claimed.id
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
