"""The concurrency limit is never exceeded, no slot is lost, and slots are restored from the database."""

import threading
import time
from collections.abc import Iterator

import pytest
from redis import Redis

from migration_service.connections import make_redis
from migration_service.errors import ShareUsedError
from migration_service.services.processing import slots as slots_module
from migration_service.services.processing.slots import LiveAttempt, SlotOwedError, Slots, SlotsStaleError


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    client = make_redis(redis_url.rsplit("/", 1)[0] + "/5", max_connections=250)
    client.flushdb()
    yield client
    client.close()


@pytest.fixture
def slots(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> Slots:
    monkeypatch.setattr(slots_module, "SETTLE_MS", 0)
    slots = Slots(redis)
    slots.reconcile([])
    return slots


def _pass_time(redis: Redis, milliseconds: int) -> None:
    """Let `milliseconds` pass for every lease. Scores are times of Redis's own clock."""
    for key in ("migration:slots", "migration:slots:wanted"):
        for member in redis.zrange(key, 0, -1):
            assert isinstance(member, bytes)
            redis.zincrby(key, -milliseconds, member)


@pytest.mark.parametrize(
    ("attempts", "limits", "admitted"),
    [
        (["a", "b", "c"], {"limit": 2}, [1, 1, 0]),
        (["a", "a", "b"], {"limit": 1}, [1, 1, 0]),
        (["a"], {"limit": 0}, [0]),
        (["a"], {"limit": None, "batch_cap": 0}, [0]),
    ],
)
def test_attempts_are_admitted_up_to_the_limit_and_each_has_one_slot(
    slots: Slots, attempts: list[str], limits: dict[str, int | None], admitted: list[int]
) -> None:
    limit, cap = limits["limit"], limits.get("batch_cap")
    assert [slots.acquire([it], owner=1, limit=limit, batch_cap=cap) for it in attempts] == admitted
    assert slots.in_use() == len({it for it, one in zip(attempts, admitted, strict=True) if one})


def test_without_a_limit_every_attempt_is_admitted_and_there_are_no_shares(slots: Slots) -> None:
    assert slots.acquire(["b"], owner=2, limit=None) == 1
    assert slots.acquire([str(n) for n in range(1_000)], owner=1, limit=None) == 1_000
    assert slots.in_use() == 1_001


def test_a_released_slot_is_free_and_releasing_again_changes_nothing(slots: Slots) -> None:
    slots.acquire(["a"], owner=1, limit=1)
    slots.release(["a"])
    slots.release(["a"])
    slots.release([])
    assert slots.acquire(["b"], owner=1, limit=1) == 1


def test_a_batch_gets_what_is_free_below_its_cap_and_leaves_the_reserve(slots: Slots) -> None:
    assert slots.acquire([f"b{n}" for n in range(10)], owner=1, limit=6, batch_cap=4) == 4
    assert slots.acquire(["x", "y", "z"], owner=1, limit=6) == 2
    slots.release(["b0", "b1"])
    assert slots.acquire(["b10", "b11", "b12"], owner=1, limit=6, batch_cap=4) == 2


def test_a_lease_that_is_not_renewed_ends(slots: Slots, redis: Redis) -> None:
    slots.acquire(["a"], owner=1, limit=1)
    _pass_time(redis, slots_module.LEASE_MS + 1)
    assert slots.acquire(["b"], owner=1, limit=1) == 1
    assert slots.in_use() == 1


def test_reconciling_releases_slots_of_ended_attempts_but_not_those_just_acquired(
    slots: Slots, redis: Redis
) -> None:
    slots.acquire(["old", "live"], owner=1, limit=9)
    _pass_time(redis, slots_module.GRACE_MS + 1)
    slots.acquire(["new"], owner=1, limit=9)
    assert slots.reconcile([LiveAttempt("live", 1)]) == []
    assert set(redis.zrange("migration:slots", 0, -1)) == {b"live", b"new"}


def test_after_a_loss_no_attempt_is_admitted_until_the_set_is_restored(slots: Slots, redis: Redis) -> None:
    slots.acquire(["a"], owner=1, limit=2)
    redis.flushdb()
    with pytest.raises(SlotsStaleError):
        slots.acquire(["b"], owner=1, limit=2)
    assert slots.reconcile([LiveAttempt("a", 1), LiveAttempt("c", 1, batch=True)]) == ["a", "c"]
    assert slots.acquire(["b"], owner=1, limit=2) == 0
    assert slots.in_use() == 2


def test_a_server_that_was_started_again_may_have_lost_its_last_second(slots: Slots, redis: Redis) -> None:
    slots.acquire(["a"], owner=1, limit=2)
    redis.script_flush()  # Scripts are not kept on disk, and the set is.
    with pytest.raises(SlotsStaleError):
        slots.acquire(["b"], owner=1, limit=2)
    slots.reconcile([LiveAttempt("a", 1), LiveAttempt("lost", 1)])
    assert slots.acquire(["b"], owner=1, limit=2) == 0


@pytest.mark.parametrize("first", ["request", "sweep"])
def test_no_slot_is_held_for_the_time_by_which_the_clock_was_set_back(
    slots: Slots, redis: Redis, first: str
) -> None:
    slots.acquire(["dead"], owner=1, limit=1)
    _pass_time(redis, -3_600_000)
    redis.hincrby("migration:slots:state", "reconciled_at", 3_600_000)
    if first == "request":
        with pytest.raises(SlotsStaleError):
            slots.acquire(["a"], owner=1, limit=1)
    slots.reconcile([])
    assert slots.acquire(["a"], owner=1, limit=1) == 1


def test_the_slot_of_an_attempt_that_was_in_the_database_and_has_ended_has_no_time_of_grace(
    slots: Slots,
) -> None:
    slots.reconcile([LiveAttempt("a", 1)])
    slots.reconcile([])
    assert slots.acquire(["b"], owner=1, limit=1) == 1


@pytest.mark.parametrize("first", ["request", "sweep"])
def test_after_a_loss_holders_of_slots_have_time_to_reach_the_database(
    slots: Slots, redis: Redis, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr(slots_module, "SETTLE_MS", 60_000)
    redis.flushdb()
    if first == "sweep":
        slots.reconcile([])
    for _ in range(2):
        with pytest.raises(SlotsStaleError):
            slots.acquire(["a"], owner=1, limit=1)
        slots.reconcile([])
    redis.hincrby("migration:slots:state", "admit_from", -60_001)
    slots.reconcile([])
    assert slots.acquire(["a"], owner=1, limit=1) == 1


def test_the_slots_of_batches_are_restored_as_those_of_batches(slots: Slots, redis: Redis) -> None:
    redis.flushdb()
    slots.reconcile([LiveAttempt("single", 1), LiveAttempt("line", 1, batch=True)])
    assert slots.acquire(["another line"], owner=1, limit=None, batch_cap=1) == 0
    assert slots.acquire(["another line"], owner=1, limit=None, batch_cap=2) == 1


def test_no_attempt_is_refused_because_of_a_set_that_was_not_reconciled_recently(
    slots: Slots, redis: Redis
) -> None:
    slots.acquire(["dead"], owner=1, limit=2)
    redis.hincrby("migration:slots:state", "reconciled_at", -slots_module.STALE_MS - 1)
    assert slots.acquire(["granted"], owner=1, limit=2) == 1, "one is free, however old the set is"
    slots.release(["granted"])
    _pass_time(redis, slots_module.GRACE_MS + 1)
    with pytest.raises(SlotsStaleError):
        slots.acquire(["b"], owner=1, limit=1)
    slots.reconcile([])
    assert slots.acquire(["b"], owner=1, limit=1) == 1


def test_two_hundred_threads_never_exceed_the_limit(slots: Slots) -> None:
    limit, holding, most = 20, 0, 0
    lock = threading.Lock()

    def work(name: str) -> None:
        nonlocal holding, most
        for turn in range(10):
            member = f"{name}-{turn}"
            if slots.acquire([member], owner=1, limit=limit):
                with lock:
                    holding += 1
                    most = max(most, holding)
                time.sleep(0.001)
                with lock:
                    holding -= 1
                slots.release([member])

    threads = [threading.Thread(target=work, args=[str(number)]) for number in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 0 < most <= limit
    assert slots.in_use() == 0


def test_the_age_of_the_last_reconciliation_is_known(redis: Redis) -> None:
    slots = Slots(redis)
    assert slots.seconds_since_reconcile() is None
    slots.reconcile([])
    age = slots.seconds_since_reconcile()
    assert age is not None
    assert 0 <= age < 60
    redis.hincrby("migration:slots:state", "reconciled_at", -100_000)
    later = slots.seconds_since_reconcile()
    assert later is not None
    assert 100 <= later < 160


@pytest.mark.parametrize("limit", [2, 3, 50, 250])
def test_from_a_limit_of_2_one_slot_always_stays_for_requests(slots: Slots, limit: int) -> None:
    attempts = [f"b{n}" for n in range(300)]
    assert slots.acquire(attempts, owner=1, limit=limit, batch_cap=limit) == limit - 1
    assert slots.acquire(["a"], owner=1, limit=limit) == 1


def _clock(redis: Redis) -> int:
    seconds, microseconds = redis.time()
    return int(seconds * 1_000 + microseconds // 1_000)


def test_a_lease_is_given_and_renewed_for_its_time_on_the_clock_of_redis(slots: Slots, redis: Redis) -> None:
    for lease, milliseconds in (
        (lambda: slots.acquire(["a"], owner=1, limit=9, batch_cap=9), slots_module.LEASE_MS),
        (
            lambda: slots.reconcile([LiveAttempt("a", 1, batch=True)]),
            slots_module.LEASE_MS - slots_module.GRACE_MS,
        ),
    ):
        _pass_time(redis, 60_000)
        before = _clock(redis)
        lease()
        after = _clock(redis)
        ends = redis.zscore("migration:slots", "a")
        assert ends is not None
        assert before <= ends - milliseconds <= after


def test_the_time_after_a_loss_is_not_begun_again_by_the_next_request_or_reconciliation(
    slots: Slots, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots_module, "SETTLE_MS", 60_000)
    redis.flushdb()
    redis.hset("migration:slots:state", "admit_from", 1)  # it is over
    with pytest.raises(SlotsStaleError):
        slots.acquire(["a"], owner=1, limit=1)
    slots.reconcile([])
    assert slots.acquire(["a"], owner=1, limit=1) == 1


def test_alone_an_organisation_has_every_slot_and_beside_another_one_half(slots: Slots) -> None:
    assert slots.acquire([f"a{n}" for n in range(9)], owner=1, limit=10) == 9
    assert slots.acquire(["b0"], owner=2, limit=10) == 1
    with pytest.raises(SlotOwedError):
        slots.acquire(["b1"], owner=2, limit=10)
    slots.release([f"a{n}" for n in range(4)])
    with pytest.raises(ShareUsedError):
        slots.acquire(["a9"], owner=1, limit=10)
    assert slots.acquire([f"b{n}" for n in range(1, 9)], owner=2, limit=10) == 4
    assert slots.acquire(["b9"], owner=2, limit=10) == 0, "the limit is reached"
    assert slots.in_use() == 10


def test_whoever_found_no_slot_counts_for_some_seconds(slots: Slots, redis: Redis) -> None:
    names = [f"a{n}" for n in range(4)]
    assert slots.acquire(names, owner=1, limit=4) == 4
    with pytest.raises(SlotOwedError):
        slots.acquire(["b"], owner=2, limit=4)
    slots.release(names[:1])
    with pytest.raises(ShareUsedError):
        slots.acquire(["a4"], owner=1, limit=4)
    _pass_time(redis, slots_module.WANTED_MS + 1)
    assert slots.acquire(["a4"], owner=1, limit=4) == 1


def test_a_batch_has_no_more_than_the_share_of_its_organisation_either(slots: Slots) -> None:
    assert slots.acquire(["b"], owner=2, limit=6) == 1
    assert slots.acquire([f"a{n}" for n in range(9)], owner=1, limit=6, batch_cap=5) == 3
    assert slots.acquire([f"c{n}" for n in range(9)], owner=3, limit=6) == 2


def test_shares_are_restored_with_the_slots_and_forgotten_with_them(slots: Slots, redis: Redis) -> None:
    redis.flushdb()
    slots.reconcile([LiveAttempt("a1", 1), LiveAttempt("a2", 1), LiveAttempt("b", 2, batch=True)])
    with pytest.raises(ShareUsedError):
        slots.acquire(["a3"], owner=1, limit=4)
    slots.release(["b"])
    assert slots.acquire(["a3"], owner=1, limit=4) == 1
    _pass_time(redis, slots_module.GRACE_MS + 1)
    slots.reconcile([])
    assert redis.hlen("migration:slots:owners") == 0
