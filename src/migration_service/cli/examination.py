"""What `migration-service doctor` examines, the foundations first: settings, servers, revisions, clocks."""

import time
from collections.abc import Generator, Iterator

from kombu.exceptions import OperationalError as BrokerError
from redis import RedisError
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from migration_service.cli.diagnosis import Check, Connections, Diagnosis, Verdict, ok, warning, wrong
from migration_service.cli.work_checks import (
    check_batches,
    check_beat,
    check_slots,
    check_stuck_attempts,
    check_suppliers,
    check_workers,
)
from migration_service.db.revisions import current_revision, newest_revision

#: Seconds of difference between two clocks that are worth a word.
_CLOCK_TOLERANCE = 2.0
_OLDEST_POSTGRES = 15


def examine(service: Connections) -> Iterator[Diagnosis]:
    """Check every part. What needs a part that does not answer is not checked, and reported as unknown."""
    yield from _guarded("settings", check_settings, service)
    database = yield from _remembered(_guarded("database", check_database, service))
    redis = yield from _remembered(_guarded("redis", check_redis, service))
    broker = yield from _remembered(_guarded("broker", check_broker, service))
    for part, check, needed in _STANDING_ON:
        present = {"database": database, "redis": redis, "broker": broker}
        missing = [name for name in needed if not present[name]]
        if missing:
            yield Diagnosis(part, Verdict.UNKNOWN, f"not checked, because the {missing[0]} does not answer")
        else:
            yield from _guarded(part, check, service)


def _guarded(part: str, check: Check, service: Connections) -> Iterator[Diagnosis]:
    try:
        yield from check(service)
    except (SQLAlchemyError, RedisError, BrokerError, OSError, ValueError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()
        yield wrong(part, f"failed: {reason[0] if reason else type(error).__name__}", _ADVICE.get(part, ""))


def _remembered(findings: Iterator[Diagnosis]) -> Generator[Diagnosis, None, bool]:
    healthy = True
    for finding in findings:
        healthy = healthy and finding.verdict is not Verdict.WRONG
        yield finding
    return healthy


_ADVICE = {
    "database": "Is PostgreSQL running, and is DATABASE_URL its address with the right password?",
    "redis": "Is Redis or Valkey running, and is REDIS_URL its address with the right password?",
    "broker": "Is the broker running, and is MIGRATION_SERVICE_BROKER_URL its address?",
    "revisions": "Apply the revisions: migration-service revisions upgrade.",
}


def check_settings(service: Connections) -> Iterator[Diagnosis]:
    """Report whether the settings could be read, and whether one is unfit for production."""
    settings = service.settings
    if len(set(settings.secret_key)) < 10:
        yield warning(
            "settings", "MIGRATION_SERVICE_SECRET_KEY looks made up", "Use 32 random characters or more."
        )
    else:
        yield ok("settings", f"read; home folder {settings.home}")


def check_database(service: Connections) -> Iterator[Diagnosis]:
    """Report whether it answers and is new enough."""
    with service.sessions.begin() as session:
        version = int(session.scalar(text("SHOW server_version_num")) or 0) // 10_000
    if version < _OLDEST_POSTGRES:
        yield wrong("database", f"PostgreSQL {version}", f"PostgreSQL {_OLDEST_POSTGRES} or newer is needed.")
    else:
        yield ok("database", f"PostgreSQL {version} answers")


def check_redis(service: Connections) -> Iterator[Diagnosis]:
    """Report whether it answers and keeps every key."""
    service.redis.ping()
    configuration = service.redis.config_get("maxmemory-policy")
    policy = configuration.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        yield warning(
            "redis",
            f"answers, and may forget messages: maxmemory-policy is {policy}",
            "Set maxmemory-policy to noeviction; nothing is lost, but much is delayed otherwise.",
        )
    else:
        yield ok("redis", "answers")


def check_broker(service: Connections) -> Iterator[Diagnosis]:
    """Open a connection as workers and publishers do."""
    with service.celery.connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
        yield ok("broker", f"{connection.transport.driver_type} answers")


def check_revisions(service: Connections) -> Iterator[Diagnosis]:
    """Report whether the tables are those of this version."""
    with service.sessions.begin() as session:
        found = current_revision(session.connection())
    newest = newest_revision()
    if found != newest:
        yield wrong("revisions", f"the tables are at {found or 'none'}, not {newest}", _ADVICE["revisions"])
    else:
        yield ok("revisions", f"the tables are at {newest}")


def check_clocks(service: Connections) -> Iterator[Diagnosis]:
    """Report whether the clocks agree: leases and redelivery compare times of several machines."""
    before = time.time()
    with service.sessions.begin() as session:
        database = float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0)
    seconds, microseconds = service.redis.time()
    here = (before + time.time()) / 2
    difference = max(abs(database - here), abs(seconds + microseconds / 1e6 - here))
    if difference > _CLOCK_TOLERANCE:
        yield wrong("clocks", f"{difference:.1f} s apart", "Keep the clocks of all machines in step (NTP).")
    else:
        yield ok("clocks", "this machine, the database and Redis agree")


_STANDING_ON: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("revisions", check_revisions, ("database",)),
    ("clocks", check_clocks, ("database", "redis")),
    ("workers", check_workers, ("broker",)),
    ("beat", check_beat, ("redis",)),
    ("slots", check_slots, ("database", "redis")),
    ("suppliers", check_suppliers, ("database",)),
    ("batches", check_batches, ("database",)),
    ("attempts", check_stuck_attempts, ("database",)),
)
