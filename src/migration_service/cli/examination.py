"""What `migration-service doctor` checks: one function for each part. Each says what it found and advises."""

import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from kombu.exceptions import OperationalError as BrokerError
from redis import Redis, RedisError
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import SWEEP_INTERVAL, create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.db.revisions import current_revision, newest_revision
from migration_service.services.reporting.counts import find_stuck_attempts, read_in_progress
from migration_service.slots import Slots
from migration_service.tasks.app import QUEUES, MigrationCelery

#: The largest acceptable difference between two clocks, in seconds.
_CLOCK_TOLERANCE = 2.0
#: Sweeps that may be missed before beat, or the worker for maintenance, counts as dead.
_MISSED_SWEEPS = 6
#: No attempt takes longer: it is given up after five tries, ten seconds apart.
_STUCK_SECONDS = 120.0
#: How often figures that change all the time are read before they count as wrong.
_READINGS, _PAUSE_SECONDS = 3, 1.0
_OLDEST_POSTGRES = 15


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    #: It works, but should be changed.
    WARNING = "warning"
    WRONG = "wrong"
    #: It could not be checked, because a part that it needs is wrong.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the doctor: the part, the result, what was found, and what to do."""

    part: str
    verdict: Verdict
    seen: str
    advice: str = ""


def ok(part: str, seen: str) -> Diagnosis:
    """Return a diagnosis that needs no action."""
    return Diagnosis(part, Verdict.OK, seen)


def wrong(part: str, seen: str, advice: str) -> Diagnosis:
    """Return a diagnosis that needs action."""
    return Diagnosis(part, Verdict.WRONG, seen, advice)


def warning(part: str, seen: str, advice: str) -> Diagnosis:
    """Return a diagnosis that needs action soon."""
    return Diagnosis(part, Verdict.WARNING, seen, advice)


class ServiceParts:
    """The connections of the doctor. They fail after seconds, not minutes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def sessions(self) -> sessionmaker[Session]:
        """Sessions on the database."""
        engine = make_engine(
            self.settings.database_url,
            pool_size=1,
            max_overflow=0,
            application_name="migration-doctor",
            pooler=self.settings.database_pooler,
        )
        return make_sessionmaker(engine)

    @cached_property
    def redis(self) -> Redis:
        """A client for Redis."""
        return make_redis(self.settings.redis_url, max_connections=2)

    @cached_property
    def celery(self) -> MigrationCelery:
        """The Celery application, for asking the workers."""
        return create_celery(self.settings)


def examine(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check every part. A part is not checked if one that it needs is unavailable."""
    yield from _guarded("settings", check_settings, parts)
    database = yield from _noting_health(_guarded("database", check_database, parts))
    redis = yield from _noting_health(_guarded("redis", check_redis, parts))
    broker = yield from _noting_health(_guarded("broker", check_broker, parts))
    for part, check, needed in _DEPENDENT:
        present = {"database": database, "redis": redis, "broker": broker}
        missing = [name for name in needed if not present[name]]
        if missing:
            yield Diagnosis(part, Verdict.UNKNOWN, f"not checked, because {missing[0]} is unavailable")
        else:
            yield from _guarded(part, check, parts)


Check = Callable[[ServiceParts], Iterator[Diagnosis]]


def _guarded(part: str, check: Check, parts: ServiceParts) -> Iterator[Diagnosis]:
    try:
        yield from check(parts)
    except (SQLAlchemyError, RedisError, BrokerError, OSError, ValueError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        yield wrong(part, f"failed: {reason[0] if reason else type(error).__name__}", _ADVICE.get(part, ""))


def _noting_health(findings: Iterator[Diagnosis]) -> Generator[Diagnosis, None, bool]:
    healthy = True
    for finding in findings:
        healthy = healthy and finding.verdict is not Verdict.WRONG
        yield finding
    return healthy


_ADVICE = {
    "database": "Check that PostgreSQL is running, and that DATABASE_URL has its address and password.",
    "redis": "Check that Redis or Valkey is running, and that REDIS_URL has its address and password.",
    "broker": "Check that the broker is running, and that MIGRATION_SERVICE_BROKER_URL has its address.",
    "revisions": "Apply the revisions: migration-service revisions upgrade",
}


def check_settings(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Find settings that must not be used in production."""
    settings = parts.settings
    if len(set(settings.secret_key)) < 10:
        yield warning(
            "settings",
            "MIGRATION_SERVICE_SECRET_KEY does not look random",
            "Use 32 or more random characters.",
        )
    else:
        yield ok("settings", f"read; the home folder is {settings.home}")


def check_database(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that PostgreSQL answers and is recent enough."""
    with parts.sessions.begin() as session:
        version = int(session.scalar(text("SHOW server_version_num")) or 0) // 10_000
    if version < _OLDEST_POSTGRES:
        yield wrong(
            "database", f"PostgreSQL {version}", f"Upgrade to PostgreSQL {_OLDEST_POSTGRES} or newer."
        )
    else:
        yield ok("database", f"PostgreSQL {version} answers")


def check_redis(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that Redis answers and never evicts keys."""
    parts.redis.ping()
    configuration = parts.redis.config_get("maxmemory-policy")
    policy = configuration.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        yield warning(
            "redis",
            f"answers, but may evict messages: maxmemory-policy is {policy}",
            "Set maxmemory-policy to noeviction. Otherwise messages are delayed, though no account is lost.",
        )
    else:
        yield ok("redis", "answers")


def check_broker(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that the broker accepts a connection."""
    with parts.celery.connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
        yield ok("broker", f"{connection.transport.driver_type} answers")


def check_revisions(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that the tables are those of this version."""
    with parts.sessions.begin() as session:
        found = current_revision(session.connection())
    newest = newest_revision()
    if found != newest:
        yield wrong(
            "revisions", f"the tables are at revision {found or 'none'}, not {newest}", _ADVICE["revisions"]
        )
    else:
        yield ok("revisions", f"the tables are at revision {newest}")


def check_clocks(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Compare the clocks of this machine, the database and Redis, on which leases and redelivery depend."""
    before = time.time()
    with parts.sessions.begin() as session:
        database = float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0)
    seconds, microseconds = parts.redis.time()
    here = (before + time.time()) / 2
    difference = max(abs(database - here), abs(seconds + microseconds / 1e6 - here))
    if difference > _CLOCK_TOLERANCE:
        yield wrong("clocks", f"{difference:.1f} s apart", "Synchronise the clocks of all machines (NTP).")
    else:
        yield ok("clocks", "this machine, the database and Redis agree")


def check_workers(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that each queue has a worker that answers."""
    answers = parts.celery.control.inspect(timeout=2.0).active_queues() or {}
    for queue in QUEUES:
        workers = sorted(
            worker for worker, queues in answers.items() if queue in {active["name"] for active in queues}
        )
        if workers:
            yield ok(f"queue {queue}", f"answered by {', '.join(workers)}")
        else:
            yield wrong(
                f"queue {queue}",
                "no worker answers",
                f"Start one: celery -A celery_worker worker -Q {queue} (a fully busy worker answers, too)",
            )


def check_beat(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that the sweep ran recently: beat and a worker for maintenance are running."""
    age = Slots(parts.redis).seconds_since_reconcile()
    advice = "Start one beat (celery -A celery_worker beat), and a worker for the queue maintenance."
    if age is None:
        yield wrong("beat", "the sweep has never run", advice)
    elif age > SWEEP_INTERVAL * _MISSED_SWEEPS:
        yield wrong(
            "beat", f"the last sweep was {age:.0f} s ago; expected one every {SWEEP_INTERVAL:.0f} s", advice
        )
    else:
        yield ok("beat", f"the sweep ran {age:.0f} s ago")


def check_slots(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that as many slots are held as attempts are in progress. Both change: read them repeatedly."""
    for reading in range(_READINGS):
        if reading:
            time.sleep(_PAUSE_SECONDS)
        in_use = Slots(parts.redis).in_use()
        with parts.sessions.begin() as session:
            now = read_in_progress(session)
        if in_use == now.attempts:
            break
    limit = "no limit" if now.limit is None else f"limit {now.limit}"
    seen = f"{in_use} held, {now.attempts} attempts in progress, {limit}"
    if now.limit is not None and in_use > now.limit:
        yield warning("slots", seen, "The limit was lowered, or Redis lost its data. No action is needed.")
    elif in_use > now.attempts + max(5, now.attempts // 10):
        yield warning("slots", seen, "The sweep releases slots of dead requests within 20 s. Check beat.")
    else:
        yield ok("slots", seen)


def check_stuck_attempts(parts: ServiceParts) -> Iterator[Diagnosis]:
    """Check that no attempt is in progress for longer than all its tries can take."""
    with parts.sessions.begin() as session:
        stuck = find_stuck_attempts(session, seconds=_STUCK_SECONDS)
    if not stuck:
        yield ok("attempts", f"none has been in progress for more than {_STUCK_SECONDS:.0f} s")
    for attempt in stuck:
        yield wrong(
            "attempts",
            f"{attempt.import_supplier} {attempt.external_account_number} has been in progress for "
            f"{attempt.seconds:.0f} s, with {attempt.tries} tries",
            "Start beat and the workers: they finish it or give it up within a minute.",
        )


_DEPENDENT: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("revisions", check_revisions, ("database",)),
    ("clocks", check_clocks, ("database", "redis")),
    ("workers", check_workers, ("broker",)),
    ("beat", check_beat, ("redis",)),
    ("slots", check_slots, ("database", "redis")),
    ("attempts", check_stuck_attempts, ("database",)),
)
