"""Events reach their endpoints, whatever these do, and no transaction is open meanwhile."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from unittest.mock import patch
from uuid import UUID

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from standardwebhooks import WebhookVerificationError

from migration_service.errors import TooManyRedeliveriesError
from migration_service.models import AuditEntry, WebhookAttempt
from migration_service.schemas.events import EventType
from migration_service.services.deliveries.claims import (
    LEASE_SECONDS,
    QUICK,
    SLOW,
    Claim,
    Lanes,
    Outcome,
    Rooms,
    Sent,
)
from migration_service.services.events.recording import record
from migration_service.services.webhooks import deliveries
from migration_service.services.webhooks.endpoints import get_endpoint, remove_endpoint, rotate_secret
from migration_service.services.webhooks.outbox import ATTEMPTS, PAUSES, Webhooks
from migration_service.services.webhooks.secrets import Seal
from migration_service.services.webhooks.switching import switch_off_failing
from migration_service.states import DeliveryFailure
from support.factories import make_customer
from support.receivers import Receiver
from support.servers import wait_until
from worker.deliveries.conftest import Hooks

_FAILED = """
    UPDATE webhook_endpoint
    SET failing_since = now() - CAST(:since AS interval), last_failed_at = now() - CAST(:last AS interval)
"""
#: One of three deliveries is as old as those that are kept.
_OLD = """
    WITH old AS (
        UPDATE webhook_delivery
        SET created_at = now() - interval '30 days' - least(id % 3, 1) * interval '1 microsecond')
    UPDATE webhook_endpoint SET removed_at = now() - CAST(:ago AS interval) WHERE removed_at IS NOT NULL
"""
_HELD = """
    SELECT held_until - now() > interval '59 minutes', next_attempt_at - now() > interval '59 minutes'
    FROM webhook_endpoint AS endpoint JOIN webhook_delivery ON endpoint_id = endpoint.id
    WHERE endpoint.id = :id AND attempts = 1
"""
_LOCKED = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
_LATER = "UPDATE webhook_delivery SET next_attempt_at = next_attempt_at - make_interval(secs => :seconds)"


def test_an_event_is_sent_as_the_feed_has_it_and_signed(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, secret = hooks.add(receiver.url)
    hooks.tell()
    hooks.send()
    (event,) = receiver.verified(secret)
    ((headers, _),) = receiver.requests
    (delivery,) = hooks.deliveries(endpoint_id)
    assert (delivery.state, delivery.attempts) == ("DELIVERED", 1)
    assert headers["webhook-id"] == event["id"] == str(delivery.event_id)
    assert headers["content-type"] == "application/json"
    assert event["type"] == EventType.ACCOUNT_CREATED
    assert event["import_supplier"] == hooks.customer.import_supplier
    assert event["data"] == {"number": 1}
    ((number, status, error),) = hooks.run("SELECT number, status, error FROM webhook_attempt")
    assert (number, status, error) == (1, 204, None)


def test_an_endpoint_gets_the_types_and_suppliers_that_it_wants(hooks: Hooks, receiver: Receiver) -> None:
    code = hooks.customer.import_supplier
    everything, _ = hooks.add(receiver.url)
    failures, _ = hooks.add(receiver.url, event_types=[EventType.ACCOUNT_FAILED])
    of_supplier, _ = hooks.add(receiver.url, import_suppliers=[code])
    off, _ = hooks.add(receiver.url)
    hooks.change(off, enabled=False)
    hooks.tell()
    hooks.tell(type=EventType.ACCOUNT_FAILED, with_supplier=False)
    found = [len(hooks.deliveries(it)) for it in (everything, failures, of_supplier, off)]
    assert found == [2, 1, 1, 0]


def test_what_is_rolled_back_is_not_sent(hooks: Hooks, receiver: Receiver) -> None:
    hooks.add(receiver.url)
    with hooks.sessions() as session:
        record(session, EventType.ACCOUNT_CREATED, {}, organisation_id=hooks.customer.organisation_id)
        session.rollback()
    assert hooks.deliveries() == []


@pytest.mark.parametrize(
    ("manner", "status", "error"),
    [
        ((500, {}), 500, "status"),
        ((404, {}), 404, "status"),
        ((302, {"Location": "/elsewhere"}), 302, "redirect"),
        ("cut", None, "connection"),
    ],
)
def test_a_failed_attempt_is_repeated(
    hooks: Hooks, receiver: Receiver, manner: object, status: int | None, error: str
) -> None:
    endpoint_id, secret = hooks.add(receiver.url)
    receiver.manner = manner  # type: ignore[assignment]
    hooks.tell()
    hooks.send(until=lambda: hooks.run("SELECT FROM webhook_attempt"))
    (delivery,) = hooks.deliveries()
    ((seconds,),) = hooks.run(
        "SELECT extract(epoch FROM next_attempt_at - at) FROM webhook_delivery, webhook_attempt"
    )
    assert (delivery.state, delivery.attempts) == ("PENDING", 1)
    assert 0.7 * PAUSES[0] < seconds < 2 * PAUSES[0]
    assert hooks.get(endpoint_id).failing_since is not None
    receiver.answer(299)
    hooks.make_due()
    hooks.send()
    with hooks.sessions() as session:
        attempts = session.scalars(select(WebhookAttempt).order_by(WebhookAttempt.number)).all()
        assert [(it.status, it.error) for it in attempts] == [(status, error), (299, None)]
        assert [it.answer for it in attempts][1] == "status 299"
    assert hooks.states() == ["DELIVERED"]
    assert hooks.get(endpoint_id).failing_since is None
    first, second = receiver.verified(secret)
    assert first == second
    assert len(set(receiver.ids())) == 1


def test_after_the_last_attempt_a_delivery_has_failed_and_can_be_asked_for_again(
    hooks: Hooks, receiver: Receiver
) -> None:
    endpoint_id, secret = hooks.add(receiver.url)
    receiver.answer(500)
    hooks.tell(2)
    for _ in range(ATTEMPTS):
        hooks.make_due()
        hooks.send()
    assert hooks.states() == ["FAILED", "FAILED"]
    assert len(receiver.requests) == 2 * ATTEMPTS
    receiver.answer(200)
    receiver.requests.clear()
    with hooks.sessions.begin() as session:
        endpoint = get_endpoint(session, endpoint_id, None)
        first = deliveries.get_delivery(session, endpoint, hooks.deliveries()[0].id)
        since = endpoint.created_at - timedelta(seconds=1)
        deliveries.redeliver(session, endpoint, first)
        # The first is about to be sent anyway.
        assert deliveries.redeliver_since(session, endpoint, since, only_failed=True) == 1
        assert deliveries.redeliver_since(session, endpoint, since, only_failed=True) == 0
    hooks.send()
    assert hooks.states() == ["FAILED", "FAILED", "DELIVERED", "DELIVERED"]
    assert hooks.get(endpoint_id).failing_since, "replays tell nothing of it"
    assert len({event["id"] for event in receiver.verified(secret)}) == 2
    beside_id, _ = hooks.add(receiver.url)
    with hooks.sessions.begin() as session:
        endpoint = get_endpoint(session, endpoint_id, None)
        assert deliveries.redeliver_since(session, endpoint, since, only_failed=True) == 0
        assert deliveries.redeliver_since(session, endpoint, since, only_failed=False) == 2
        beside = get_endpoint(session, beside_id, None)
        assert deliveries.redeliver_since(session, beside, since, only_failed=True) == 0, "it had no failures"


def test_status_410_switches_off_and_tells_but_replays_are_sent(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, secret = hooks.add(receiver.url, email="owner@example.com")
    receiver.answer(410)
    hooks.tell(2)
    hooks.send(until=lambda: hooks.get(endpoint_id).disabled_at)
    hooks.send()
    endpoint = hooks.get(endpoint_id)
    assert endpoint.disabled_reason == "GONE"
    assert hooks.run("SELECT recipient FROM alert_email") == [("owner@example.com",)]
    actions = hooks.run("SELECT action, details ->> 'reason' FROM audit_entry ORDER BY id DESC LIMIT 1")
    assert actions == [("webhook.switched_off", "GONE")]
    hooks.tell(3)
    receiver.answer(200)
    receiver.requests.clear()
    hooks.send()
    assert receiver.requests == []
    with hooks.sessions.begin() as session:
        endpoint = get_endpoint(session, endpoint_id, None)
        deliveries.send_test(session, endpoint)
        newer = rotate_secret(session, endpoint, hooks.seal, overlap_hours=0)
        since = endpoint.created_at - timedelta(seconds=1)
        # Those that happened while it was off, and one of the first two; the other is pending.
        sent = deliveries.redeliver_since(session, endpoint, since, only_failed=False)
    hooks.send()
    events = receiver.verified(newer)
    assert len(events) == sent + 1
    assert "webhook.test" in {event["type"] for event in events}
    with pytest.raises(WebhookVerificationError):
        receiver.verified(secret)
    assert hooks.get(endpoint_id).disabled_at is not None


def test_failing_for_days_switches_off(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url, email="owner@example.com")

    def switched_off(since: str, last: str) -> int:
        with hooks.sessions.begin() as session:
            session.execute(text(_FAILED), {"since": since, "last": last})
            return switch_off_failing(session)

    assert switched_off("5 days", "1 hour") == 0
    assert switched_off("5 days 1 hour", "4 days 1 hour 1 microsecond") == 0
    assert switched_off("5 days 1 microsecond", "4 days 1 microsecond") == 1
    assert switched_off("6 days", "1 hour") == 0
    assert hooks.get(endpoint_id).disabled_reason == "FAILING"
    assert len(hooks.run("SELECT FROM alert_email")) == 1
    hooks.change(endpoint_id, enabled=True)
    assert hooks.get(endpoint_id).failing_since is None


def test_failed_replays_do_not_count(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    receiver.answer(500)
    with hooks.sessions.begin() as session:
        deliveries.send_test(session, get_endpoint(session, endpoint_id, None))
    hooks.send(until=lambda: receiver.requests)
    hooks.send()
    assert hooks.get(endpoint_id).failing_since is None
    receiver.answer(410)
    hooks.make_due()
    hooks.send()
    assert hooks.states() == ["FAILED"]
    assert hooks.get(endpoint_id).disabled_at is None


def test_what_fails_while_another_arrives_does_not_count(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.tell(2)
    webhooks = Webhooks(hooks.client, hooks.seal)
    with hooks.sessions.begin() as session:
        claims = webhooks.claim(session, Rooms(2, {endpoint_id: 2}, {}, 2))
        came = zip(claims, (Outcome(), Outcome(failure=DeliveryFailure.STATUS)), strict=True)
        webhooks.record(session, [Sent(claim, datetime.now(UTC), 0.1, it) for claim, it in came])
    assert sorted(hooks.states()) == ["DELIVERED", "PENDING"]
    assert hooks.get(endpoint_id).failing_since is None


@pytest.mark.parametrize("as_date", [False, True])
def test_a_pause_that_the_endpoint_asks_for_holds_all_its_deliveries(
    hooks: Hooks, receiver: Receiver, another: Receiver, *, as_date: bool
) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.add(another.url)
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    receiver.answer(503, Retry_After=in_an_hour if as_date else "3600")
    hooks.tell(5)
    hooks.send()
    assert len(receiver.requests) == 1
    assert len(another.requests) == 5
    assert hooks.run(_HELD, id=endpoint_id) == [(True, True)]


def test_two_who_ask_at_the_same_time_have_each_event_sent_once(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.change(endpoint_id, enabled=False)
    hooks.tell(3)

    def ask() -> int:
        with hooks.sessions.begin() as session:
            endpoint = get_endpoint(session, endpoint_id, None)
            return deliveries.redeliver_since(session, endpoint, endpoint.created_at, only_failed=False)

    with ThreadPoolExecutor() as threads, hooks.sessions.begin() as session:
        endpoint = get_endpoint(session, endpoint_id, None)
        assert deliveries.redeliver_since(session, endpoint, endpoint.created_at, only_failed=False) == 3
        second = threads.submit(ask)
        wait_until(lambda: hooks.run(_LOCKED), "the second waits for the first")
        session.commit()
        assert second.result() == 0


def test_a_redelivery_has_what_its_endpoint_wants_since_then(hooks: Hooks, receiver: Receiver) -> None:
    wanted = (
        {"event_types": [EventType.ACCOUNT_FAILED]},
        {"import_suppliers": [hooks.customer.import_supplier]},
    )
    ids = [hooks.add(receiver.url, **it)[0] for it in ({}, *wanted)]
    for it in ids:
        hooks.change(it, enabled=False)
    hooks.tell()
    hooks.tell(type=EventType.ACCOUNT_FAILED, with_supplier=False)
    with hooks.sessions.begin() as session:
        of_others = make_customer(hooks.sessions).organisation_id
        record(session, EventType.ACCOUNT_CREATED, {}, organisation_id=of_others)
    (first,), (second,), _ = hooks.run("SELECT created_at FROM event ORDER BY created_at")
    later = timedelta(microseconds=1)

    def count_again(endpoint_id: UUID, since: datetime, *, only_failed: bool = False) -> int:
        with hooks.sessions() as session:
            endpoint = get_endpoint(session, endpoint_id, None)
            return deliveries.redeliver_since(session, endpoint, since, only_failed=only_failed)

    assert [count_again(it, first) for it in ids] == [2, 1, 1]
    assert [count_again(ids[0], it) for it in (first + later, second, second + later)] == [1, 1, 0]
    with hooks.sessions.begin() as session:
        endpoint = get_endpoint(session, ids[0], None)
        assert deliveries.redeliver_since(session, endpoint, first, only_failed=False) == 2
        deliveries.send_test(session, endpoint)
    hooks.run("UPDATE webhook_delivery SET state = 'FAILED', settled_at = now(), created_at = :at", at=first)
    assert [count_again(ids[0], it, only_failed=True) for it in (first, first + later)] == [2, 0]
    with hooks.sessions() as session, patch.object(deliveries, "MOST_REDELIVERIES", 1):
        endpoint = get_endpoint(session, ids[0], None)
        session.execute(text("UPDATE webhook_delivery SET created_at = now() - interval '1 day'"))
        deliveries.send_test(session, endpoint)
        session.execute(text("UPDATE webhook_delivery SET is_replay = false"))
        deliveries.send_test(session, endpoint)
        with pytest.raises(TooManyRedeliveriesError):
            deliveries.send_test(session, endpoint)


def test_old_deliveries_are_removed_also_those_that_nobody_will_send(
    hooks: Hooks, receiver: Receiver
) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.tell(3)
    kept, _ = hooks.add(receiver.url)
    with hooks.sessions.begin() as session:
        remove_endpoint(session, get_endpoint(session, endpoint_id, None))

    def remove(removed_ago: str) -> int:
        with hooks.sessions.begin() as session:
            session.execute(text(_OLD), {"ago": removed_ago})
            return sum(deliveries.remove_old_deliveries(session, limit=2) for _ in range(2))

    assert remove("1 day") == 2
    assert hooks.states() == ["PENDING"]
    assert remove("1 day 1 microsecond") == 1
    assert hooks.run("SELECT id FROM webhook_endpoint") == [(kept,)]


def test_during_the_overlap_both_secrets_sign(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, old = hooks.add(receiver.url)
    with hooks.sessions.begin() as session:
        endpoint = get_endpoint(session, endpoint_id, None)
        new = rotate_secret(session, endpoint, hooks.seal, overlap_hours=1)
    hooks.tell()
    hooks.send()
    assert receiver.verified(old) == receiver.verified(new)
    hooks.run("UPDATE webhook_secret SET expires_at = now() WHERE expires_at IS NOT NULL")
    hooks.tell()
    hooks.send()
    assert len(receiver.verified(new)) == 2
    with pytest.raises(WebhookVerificationError):
        receiver.verified(old)
    stored = [sealed for (sealed,) in hooks.run("SELECT sealed FROM webhook_secret")]
    assert not any(secret in sealed for secret in (old, new) for sealed in stored)


def test_without_the_key_of_its_secret_nothing_is_sent_but_repeated(hooks: Hooks, receiver: Receiver) -> None:
    hooks.add(receiver.url)
    hooks.tell()
    with patch.object(hooks, "seal", Seal([])):
        keyless = hooks.new_sender()
    hooks.send(sender=keyless)
    keyless.finish(5)
    assert receiver.requests == []
    assert hooks.run("SELECT error FROM webhook_attempt") == [("settings",)]
    hooks.make_due()
    hooks.send()
    assert hooks.states() == ["DELIVERED"]


def test_no_transaction_is_open_while_something_is_sent(hooks: Hooks, receiver: Receiver) -> None:
    receiver.manner = "hang"
    hooks.add(receiver.url)
    hooks.tell()
    hooks.send(until=lambda: receiver.requests)
    assert hooks.sender.is_busy
    assert hooks.sessions.kw["bind"].pool.checkedout() == 0
    assert hooks.states() == ["PENDING"]


def test_endpoints_that_hang_hold_up_no_other(hooks: Hooks, receiver: Receiver, another: Receiver) -> None:
    receiver.manner = "hang"
    for _ in range(20):
        hooks.add(receiver.url)
    good, _ = hooks.add(another.url)
    hooks.tell(30)
    hooks.send(until=lambda: hooks.states(good) == ["DELIVERED"] * 30)
    # Each has had one message at most, and none has answered.
    assert 0 < len(receiver.requests) <= 20
    receiver.answer(200)
    receiver.let_go.set()
    hooks.send()
    assert set(hooks.states()) <= {"DELIVERED", "PENDING"}


def test_the_work_of_a_worker_that_died_is_done_by_another(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.tell()
    outbox = hooks.sender._outboxes[0]
    with hooks.sessions.begin() as session:
        (claimed,) = outbox.claim(session, Lanes().rooms())
    with hooks.sessions.begin() as session:
        assert outbox.claim(session, Lanes().rooms()) == []
    hooks.run(_LATER, seconds=LEASE_SECONDS)
    hooks.send()
    assert hooks.states(endpoint_id) == ["DELIVERED"]
    assert receiver.ids() == [str(claimed.message_id)]


def test_what_could_not_be_recorded_keeps_no_place(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.tell()
    lost = OperationalError("UPDATE", {}, Exception("the server closed the connection"))
    with patch.object(Webhooks, "record", side_effect=lost), pytest.raises(OperationalError):
        hooks.send(until=lambda: False)
    assert not hooks.sender.is_busy
    hooks.make_due()
    hooks.send()
    assert hooks.states(endpoint_id) == ["DELIVERED"]
    assert len(receiver.requests) == 2


def test_changes_are_audited_without_addresses_of_people(hooks: Hooks, receiver: Receiver) -> None:
    endpoint_id, _ = hooks.add(receiver.url, email="owner@example.com")
    hooks.change(endpoint_id, enabled=False, description="Billing")
    with hooks.sessions.begin() as session:
        entries = session.scalars(select(AuditEntry).where(AuditEntry.subject == str(endpoint_id))).all()
        assert [it.action for it in entries] == ["webhook.created", "webhook.changed"]
        assert entries[1].details == {"enabled": False}
        assert not any("owner@" in str(it.details) for it in entries)


def test_however_much_some_organisations_send_another_finds_places() -> None:
    """Each of eight has ever new endpoints that hang until the deadline."""
    now, numbers = 0.0, count()
    underway: list[tuple[Claim, float]] = []
    lanes = Lanes(lambda: now)
    for half_second in range(120):
        now = half_second / 2
        for claim, begun in [it for it in underway if now - it[1] >= 10]:
            underway.remove((claim, begun))
            lanes.end(claim, is_delivered=False)
        for organisation_id in range(8):
            rooms = lanes.rooms()
            share = rooms.of_organisations.get(organisation_id, rooms.usual)
            for _ in range(min(rooms.free, share, 50)):
                number = next(numbers)
                claim = Claim(
                    id=number, message_id="", destination=number, organisation_id=organisation_id, attempts=0
                )
                lanes.begin(claim)
                underway.append((claim, now))
        if half_second > 60:  # whoever was first has had to let places go
            rooms = lanes.rooms()
            assert min(rooms.free, rooms.usual) > 0
            assert len(underway) < QUICK + SLOW


def test_a_backlog_of_one_organisation_leaves_others_their_turn(hooks: Hooks, receiver: Receiver) -> None:
    stranger = make_customer(hooks.sessions)
    for _ in range(5):
        hooks.add(receiver.url)
    hooks.tell(4)
    mine, hooks.customer = hooks.customer, stranger
    theirs, _ = hooks.add(receiver.url)
    hooks.tell()
    outbox, rooms = hooks.sender._outboxes[0], Lanes().rooms()
    with hooks.sessions() as session:
        claims = outbox.claim(session, replace(rooms, free=2))
        session.rollback()
        assert {it.organisation_id for it in claims} == {mine.organisation_id, stranger.organisation_id}
        claims = outbox.claim(session, replace(rooms, of_organisations={mine.organisation_id: 1}))
        assert [it.organisation_id for it in claims].count(mine.organisation_id) == 1
        assert theirs in {it.destination for it in claims}


def test_a_delivery_refers_to_its_event_and_fails_if_that_was_removed(
    hooks: Hooks, receiver: Receiver
) -> None:
    endpoint_id, _ = hooks.add(receiver.url)
    hooks.tell(2)
    hooks.run("DELETE FROM event WHERE id = (SELECT event_id FROM webhook_delivery ORDER BY id LIMIT 1)")
    hooks.send()
    assert hooks.states() == ["FAILED", "DELIVERED"]
    assert hooks.run("SELECT error FROM webhook_attempt ORDER BY delivery_id") == [
        ("event_removed",),
        (None,),
    ]
    assert hooks.get(endpoint_id).failing_since is None
