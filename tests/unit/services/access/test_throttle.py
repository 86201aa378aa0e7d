"""Throttling and refusals: failures, clients, times, and what is counted and recorded."""

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from redis import Redis
from sqlalchemy import select
from sqlalchemy.orm import Session, sessionmaker

from migration_service.connections import make_redis
from migration_service.errors import PermissionDeniedError, ThrottledError, UnauthenticatedError
from migration_service.models import AuditEntry
from migration_service.origin import ActorKind, Origin, acting_as
from migration_service.services.access import refusals
from migration_service.services.access.refusals import RefusalLog
from migration_service.services.access.throttle import (
    MOST_FAILURES,
    WINDOW_SECONDS,
    Throttle,
    client_of,
    client_of_login,
)
from support.servers import EmbeddedServers


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def unavailable() -> Iterator[Redis]:
    client = make_redis("redis://127.0.0.1:1/0")
    yield client
    client.connection_pool.disconnect()


@pytest.fixture(params=["redis", "unavailable"])
def throttle(request: pytest.FixtureRequest) -> Throttle:
    return Throttle(request.getfixturevalue(request.param))


@pytest.fixture
def client() -> str:
    return f"address:{secrets.token_hex(8)}"


def _fail(throttle: Throttle, client: str) -> None:
    for _ in range(MOST_FAILURES):
        throttle.check(client)
        throttle.count_failure(client)


def test_after_ten_failures_a_client_is_refused(throttle: Throttle, client: str) -> None:
    _fail(throttle, client)
    for _ in range(3):
        with pytest.raises(ThrottledError) as refused:
            throttle.check(client)
        assert 1 <= refused.value.retry_after <= WINDOW_SECONDS
    throttle.check("address:another")


def test_of_many_simultaneous_failures_ten_are_answered(throttle: Throttle, client: str) -> None:
    def fail(_number: int) -> bool:
        try:
            throttle.count_failure(client)
        except ThrottledError:
            return False
        return True

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(fail, range(200))) == MOST_FAILURES


def test_a_further_failure_does_not_extend_the_minute(redis: Redis, client: str) -> None:
    throttle = Throttle(redis)
    _fail(throttle, client)
    redis.pexpire(f"migration:throttle:{client}", 30_000)
    with pytest.raises(ThrottledError) as refused:
        throttle.count_failure(client)
    assert 20 < refused.value.retry_after <= 30
    redis.pexpire(f"migration:throttle:{client}", 0)
    throttle.check(client)


def test_every_counter_in_redis_expires(redis: Redis, client: str) -> None:
    Throttle(redis).count_failure(client)
    assert 0 < redis.pttl(f"migration:throttle:{client}") <= WINDOW_SECONDS * 1000


def test_without_redis_each_process_counts_for_a_minute(unavailable: Redis, client: str) -> None:
    clock = Clock()
    throttle = Throttle(unavailable, clock)
    _fail(throttle, client)
    clock.now += WINDOW_SECONDS - 1
    with pytest.raises(ThrottledError) as refused:
        throttle.check(client)
    assert refused.value.retry_after == 1
    clock.now += 0.5
    with pytest.raises(ThrottledError) as refused:
        throttle.count_failure(client)
    assert refused.value.retry_after == 1
    clock.now += 0.5
    throttle.check(client)
    _fail(throttle, client)


@pytest.mark.parametrize(
    ("address", "client"),
    [
        ("192.0.2.1", "address:192.0.2.1"),
        ("::ffff:192.0.2.1", "address:192.0.2.1"),
        ("2001:db8:1:2:ffff:4:5:6", "address:2001:db8:1:2::"),
        ("2001:db8:1:2::9", "address:2001:db8:1:2::"),
        (None, "address:unknown"),
        ("", "address:unknown"),
        ("/run/socket", "address:unknown"),
    ],
)
def test_a_client_is_identified_by_its_address(address: str | None, client: str) -> None:
    assert client_of(address) == client


def test_a_client_that_stands_for_a_login_has_the_address_and_does_not_tell_the_name() -> None:
    anna, berta = client_of_login("192.0.2.7", "anna"), client_of_login("192.0.2.7", "berta")
    assert len({anna, berta, client_of_login("192.0.2.8", "anna")}) == 3
    assert "anna" not in anna


def test_an_attempt_that_succeeded_is_forgiven(throttle: Throttle, client: str) -> None:
    for _ in range(2 * MOST_FAILURES):
        throttle.count_failure(client)
        throttle.forgive(client)
    throttle.forgive(client)
    _fail(throttle, client)
    with pytest.raises(ThrottledError):
        throttle.count_failure(client)


def _refuse(log: RefusalLog, address: str) -> None:
    """Refuse the token of a request from this address."""
    with acting_as(Origin(kind=ActorKind.UNKNOWN, address=address)):
        log.note_refused_request(UnauthenticatedError())


def _noted(sessions: sessionmaker[Session], *addresses: str) -> list[AuditEntry]:
    with sessions() as session:
        found = select(AuditEntry).where(AuditEntry.address.in_(addresses)).order_by(AuditEntry.id)
        return list(session.scalars(found))


def test_an_entry_has_all_that_is_known_of_who_was_refused(sessions: sessionmaker[Session]) -> None:
    log = RefusalLog(sessions)
    key = Origin(
        kind=ActorKind.API_KEY, actor="ami_known", organisation_id=7, address="192.0.2.1", request_id="r-1"
    )
    with acting_as(key):
        log.note_refused_request(PermissionDeniedError())
    with acting_as(Origin(kind=ActorKind.UNKNOWN, address="192.0.2.2", request_id="r-2")):
        log.note_refused_login(UnauthenticatedError(), "ami_tried")
    fields = ("actor_kind", "actor", "organisation_id", "request_id", "action", "outcome", "code", "details")
    assert [[getattr(it, name) for name in fields] for it in _noted(sessions, "192.0.2.1", "192.0.2.2")] == [
        ["api_key", "ami_known", 7, "r-1", "permission.refused", "REFUSED", "permission_denied", None],
        ["unknown", "ami_tried", None, "r-2", "login.refused", "REFUSED", "failed_login", None],
    ]


def test_a_client_is_noted_once_a_minute_for_each_event(sessions: sessionmaker[Session]) -> None:
    log = RefusalLog(sessions, clock=Clock())
    for address in ("2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"):  # two in the network of one client
        _refuse(log, address)
    with acting_as(Origin(kind=ActorKind.UNKNOWN, address="2001:db8::2")):
        log.note_refused_request(PermissionDeniedError())
    noted = _noted(sessions, "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1")
    assert [it.address for it in noted] == ["2001:db8::1", "2001:db8:0:1::1", "2001:db8::2"]


def test_all_processes_together_note_so_many_refusals_of_a_minute(
    sessions: sessionmaker[Session], embedded_servers: EmbeddedServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is to come counts for this minute, whenever that ends. Only the owner of the table can write it.
    with psycopg.connect(embedded_servers.owner_url) as owner:
        owner.execute("ALTER TABLE audit_entry DISABLE TRIGGER audit_guard")
        owner.execute("""
            INSERT INTO audit_entry (at, actor_kind, action, outcome, timeline)
            SELECT now() + distance, 'unknown', 'token.refused', outcome, 1
            FROM (VALUES (interval '1h', 'REFUSED', 2), ('-1h', 'REFUSED', 9), ('1h', 'DONE', 9))
                     AS it (distance, outcome, number),
                 generate_series(1, number)
        """)
        owner.execute("ALTER TABLE audit_entry ENABLE TRIGGER audit_guard")
    monkeypatch.setattr(refusals, "MOST_A_MINUTE", 3)
    _refuse(RefusalLog(sessions), "192.0.2.1")
    monkeypatch.setattr(refusals, "MOST_A_MINUTE", 2)
    _refuse(RefusalLog(sessions), "192.0.2.2")
    assert [it.address for it in _noted(sessions, "192.0.2.1", "192.0.2.2")] == ["192.0.2.1"]
