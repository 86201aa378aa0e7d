"""The concurrency limit (section 8): leased slots in Redis, acquired and released by atomic scripts.

A slot is a member of a sorted set. Its name is the attempt that holds it, and its score is the expiry of its
lease, on Redis's clock. A hash has the organisation of each slot, and whether it belongs to a batch. Both can
be restored from PostgreSQL, which knows the attempts in progress. Until a lost set has been restored, no slot
can be acquired. A set also counts as lost if Redis was restarted, which may lose its last second, or if its
clock was set back, which would prolong leases.

While several organisations need slots, each may hold an equal share of them (`shares`). An organisation with
less than its share waits a moment for a slot instead of being refused, because those with more get none until
then.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import UUID

from redis import Redis, RedisError
from redis.client import Pipeline
from redis.commands.core import Script
from redis.exceptions import NoScriptError
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.connections import log_if_unavailable
from migration_service.db.base import literals
from migration_service.errors import ServiceUnavailableError, ShareUsedError
from migration_service.states import BatchKind, BatchMode, ImportState

#: The time for which a slot is leased. `reconcile` renews the leases of attempts in progress.
LEASE_MS = 120_000
#: The time for which a slot may be held before its attempt is in the database.
GRACE_MS = 10_000
#: The time after a loss during which no slot can be acquired, for requests that held one to reach the
#: database.
SETTLE_MS = 1_500
#: The age of the last reconciliation at which another one is required before a request is refused. This
#: releases slots even if beat is not running.
STALE_MS = 10_000
#: The time for which an organisation with less than its share counts as waiting after it found no free slot.
WANTED_MS = 4_000
#: Seconds that it waits for the next one.
OWED_TIMEOUT = 3.0
#: Seconds to wait for slots lost by Redis to be restored from the database.
RESTORE_TIMEOUT = 5.0
_PAUSE = 0.05

_KEYS = ("migration:slots", "migration:slots:owners", "migration:slots:state", "migration:slots:wanted")

# With the first line a server that has no memory left refuses a script as a whole.
_NOW = """#!lua
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if tonumber(redis.call('HGET', KEYS[3], 'reconciled_at') or '0') > now + 1000 then
  redis.call('DEL', unpack(KEYS))  -- the clock was set back
end
"""

# From a limit of 2 on, batches leave one slot for requests. They compete for a single slot.
#
# Returns the number of members that hold a slot now, which are the first ones. Returns -1 if the set must be
# reconciled first, because it was lost, or because no slot is free and the last reconciliation is too old; -2
# if the owner uses its whole share; -3 if no slot is free and the owner has less than its share.
_ACQUIRE = """
local slots, owners, state, wanted = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local limit, batch_cap = tonumber(ARGV[1]), tonumber(ARGV[2])
local lease, settle, stale = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local want, owner = tonumber(ARGV[6]), ARGV[7]
if redis.call('HGET', state, 'ready') ~= '1' then
  redis.call('HSETNX', state, 'admit_from', now + settle)
  return -1
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', slots, '-inf', '(' .. now)) do
  redis.call('ZREM', slots, member)
  redis.call('HDEL', owners, member)
end
redis.call('ZREMRANGEBYSCORE', wanted, '-inf', '(' .. now)
local held, of_batches, own, present, others = redis.call('ZCARD', slots), 0, 0, 1, {[owner] = true}
local function count(name)
  if not others[name] then others[name] = true; present = present + 1 end
end
for _, value in ipairs(redis.call('HVALS', owners)) do
  local name, kind = string.match(value, '^(%S+) (%S+)$')
  count(name)
  if name == owner then own = own + 1 end
  if kind == 'batch' then of_batches = of_batches + 1 end
end
for _, name in ipairs(redis.call('ZRANGE', wanted, 0, -1)) do count(name) end
if limit < 0 then limit = math.huge end
local share = present > 1 and math.ceil(limit / present) or limit
local kind = batch_cap >= 0 and 'batch' or 'request'
if limit >= 2 then batch_cap = math.min(batch_cap, limit - 1) end
if kind == 'request' then batch_cap = math.huge end
local granted, room = 0, math.min(limit - held, batch_cap - of_batches, share - own)
for i = 8, #ARGV do
  if not redis.call('ZSCORE', slots, ARGV[i]) then
    if room <= 0 then break end
    room = room - 1
  end
  redis.call('ZADD', slots, 'GT', now + lease, ARGV[i])
  redis.call('HSET', owners, ARGV[i], owner .. ' ' .. kind)
  granted = granted + 1
end
if granted > 0 then
  redis.call('ZREM', wanted, owner)
  return granted
end
if now - tonumber(redis.call('HGET', state, 'reconciled_at')) > stale then return -1 end
if held < limit then return of_batches < batch_cap and own >= share and -2 or 0 end
if own >= share or present == 1 then return 0 end
redis.call('ZADD', wanted, now + want, owner)
return -3
"""

# Reconciles the set with the attempts in progress. Returns the members that were missing. Their leases
# exclude the grace period, which ends once an attempt is in the database.
_RECONCILE = """
local slots, owners, state = KEYS[1], KEYS[2], KEYS[3]
local lease, grace, settle = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
redis.call('HSETNX', state, 'admit_from', now + settle)
local live, added = {}, {}
for i = 4, #ARGV, 2 do
  live[ARGV[i]] = true
  if redis.call('ZADD', slots, 'GT', now + lease - grace, ARGV[i]) == 1 then added[#added + 1] = ARGV[i] end
  redis.call('HSET', owners, ARGV[i], ARGV[i + 1])
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', slots, '-inf', now + lease - grace)) do
  if not live[member] then redis.call('ZREM', slots, member) end
end
for _, member in ipairs(redis.call('HKEYS', owners)) do
  if not redis.call('ZSCORE', slots, member) then redis.call('HDEL', owners, member) end
end
redis.call('HSET', state, 'reconciled_at', now)
if now >= tonumber(redis.call('HGET', state, 'admit_from')) then redis.call('HSET', state, 'ready', '1') end
return added
"""


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt in progress according to the database."""

    id: str
    #: The organisation of its account.
    owner: int
    batch: bool = False


class SlotsStaleError(Exception):
    """The set must be reconciled with the database first: call `reconcile`, then retry."""


class SlotOwedError(Exception):
    """No slot is free, but the organisation has less than its share and gets one of the next."""


_REFUSALS = {-1: SlotsStaleError, -2: ShareUsedError, -3: SlotOwedError}


class Slots:
    """The slots of one Redis. `redis` has short time-outs. Its errors are raised, except by `release`."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._acquire = redis.register_script(_NOW + _ACQUIRE)
        self._reconcile = redis.register_script(_NOW + _RECONCILE)

    def acquire(
        self, attempts: Sequence[UUID | str], *, owner: int, limit: int | None, batch_cap: int | None = None
    ) -> int:
        """Acquire a slot for each of `attempts` while any are free. Return the number that hold one.

        `owner` is the organisation. If `limit` is None, there is no limit. `batch_cap` is the most slots that
        batches may hold together; pass it only for attempts of a batch. A second call for the same attempt
        does not acquire a second slot. Raise SlotsStaleError until the set is reconciled with the database,
        and ShareUsedError or SlotOwedError if the owner gets none because of others.
        """
        limits = (-1 if it is None else it for it in (limit, batch_cap))
        times = (LEASE_MS, SETTLE_MS, STALE_MS, WANTED_MS)
        granted: int = self._run(self._acquire, *limits, *times, owner, *map(str, attempts))
        if refusal := _REFUSALS.get(granted):
            raise refusal
        return granted

    def release(self, attempts: Collection[UUID | str]) -> None:
        """Release slots. Attempts without one are ignored. Without Redis the leases expire."""
        with log_if_unavailable("slots are released later"), self._redis.pipeline() as pipeline:
            self.add_release(pipeline, attempts)
            pipeline.execute()

    def add_release(self, pipeline: Pipeline, attempts: Collection[UUID | str]) -> None:
        """Add the commands of `release` to the caller's pipeline, to save a round trip."""
        if attempts:
            pipeline.zrem(_KEYS[0], *map(str, attempts))
            pipeline.hdel(_KEYS[1], *map(str, attempts))

    def reconcile(self, live: Iterable[LiveAttempt]) -> list[str]:
        """Reconcile the set with the attempts in progress. Return those that had no slot."""
        args: list[Any] = [LEASE_MS, GRACE_MS, SETTLE_MS]
        for attempt in live:
            args += [attempt.id, f"{attempt.owner} {'batch' if attempt.batch else 'request'}"]
        return [member.decode() for member in cast(list[bytes], self._run(self._reconcile, *args))]

    def _run(self, script: Script, *args: Any) -> Any:
        try:
            return self._redis.evalsha(script.sha, len(_KEYS), *_KEYS, *args)
        except NoScriptError:
            # The server has restarted since they were loaded, with or without the data of its last second.
            with self._redis.pipeline() as pipeline:
                pipeline.delete(*_KEYS)
                for one in (self._acquire, self._reconcile):
                    pipeline.script_load(one.script)
                pipeline.execute()
            return self._redis.evalsha(script.sha, len(_KEYS), *_KEYS, *args)

    def in_use(self) -> int:
        """Return the number of slots held now."""
        return self._redis.zcard(_KEYS[0])

    def seconds_since_reconcile(self) -> float | None:
        """Return the seconds since the last reconciliation with the database, or None if there was none."""
        reconciled_at = self._redis.hget(_KEYS[2], "reconciled_at")
        if reconciled_at is None:
            return None
        seconds, microseconds = self._redis.time()
        return max(0.0, seconds + microseconds / 1e6 - float(reconciled_at) / 1000)


def acquire_slots(
    sessions: sessionmaker[Session],
    slots: Slots,
    attempts: Sequence[UUID],
    *,
    owner: int,
    limit: int | None,
    batch_cap: int | None = None,
    timeout: float = 0.0,
) -> Sequence[UUID]:
    """Acquire slots for `attempts`. Return the attempts that got one, which are the first ones.

    If no slot is free, wait up to `timeout` seconds for one, or OWED_TIMEOUT if the organisation has less
    than its share. `owner`, `limit` and `batch_cap` are those of `Slots.acquire`. Raise ShareUsedError if the
    organisation uses its whole share, and ServiceUnavailableError if Redis is unavailable or has lost slots
    that cannot be restored.
    """
    start = time.monotonic()
    try:
        while True:
            waited = time.monotonic() - start
            try:
                granted = slots.acquire(attempts, owner=owner, limit=limit, batch_cap=batch_cap)
                if granted or waited >= timeout:
                    return attempts[:granted]
            except ShareUsedError:
                if waited >= timeout:
                    raise
            except SlotOwedError:
                if waited >= max(timeout, OWED_TIMEOUT):
                    return []
            except SlotsStaleError:
                if waited >= RESTORE_TIMEOUT:
                    raise ServiceUnavailableError from None
                with sessions.begin() as session:
                    reconcile_slots(session, slots)
            time.sleep(_PAUSE)
    except RedisError as error:
        raise ServiceUnavailableError from error


def reconcile_slots(session: Session, slots: Slots) -> None:
    """Renew or restore the slot of each attempt in progress, and release all other slots."""
    added = slots.reconcile(list_live_attempts(session))
    if added:
        # Some may have ended since they were read, and must not hold a slot any more.
        still = {attempt.id for attempt in list_live_attempts(session)}
        slots.release(set(added) - still)


def list_live_attempts(session: Session) -> list[LiveAttempt]:
    """Return the attempts that hold slots according to the database."""
    return [LiveAttempt(str(row.attempt), row.owner, batch=row.batch) for row in session.execute(_LIVE)]


_LIVE = text(f"""
    SELECT attempt_id AS attempt, organisation_id AS owner, FALSE AS batch
    FROM account_import_process JOIN import_supplier ON import_supplier.id = import_supplier_id
    WHERE state = '{ImportState.IN_PROGRESS}'
    UNION ALL
    SELECT attempt, organisation_id, TRUE
    FROM batch_chunk JOIN batch ON batch.id = batch_chunk.batch_id, unnest(attempts) AS attempt
    WHERE attempts IS NOT NULL AND mode IN ({literals(mode for mode in BatchMode if mode.creates)})
      AND kind = '{BatchKind.ACCOUNTS}'
""")
