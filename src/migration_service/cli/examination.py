"""What `migration-service doctor` looks at: one function a part, each with what it found and what to do."""

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

#: Seconds of difference between two clocks that are worth a word.
_CLOCK_TOLERANCE = 2.0
#: Sweeps that may be missed before beat, or the worker for upkeep, counts as dead.
_MISSED_SWEEPS = 6
#: An attempt is given up after five tries with ten seconds between: nothing takes longer.
_STUCK_SECONDS = 120.0
#: Looks at what changes all the time.
_LOOKS, _PAUSE_SECONDS = 3, 1.0
_OLDEST_POSTGRES = 15


class Verdict(StrEnum):
    """What a check comes to."""

    OK = "ok"
    #: Works, and should be changed.
    WARNING = "warning"
    WRONG = "wrong"
    #: Could not be looked at, because of what is said above it.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the doctor: what was looked at, what it comes to, what was seen, what to do."""

    part: str
    verdict: Verdict
    seen: str
    advice: str = ""


def ok(part: str, seen: str) -> Diagnosis:
    """Nothing to do."""
    return Diagnosis(part, Verdict.OK, seen)


def wrong(part: str, seen: str, advice: str) -> Diagnosis:
    """Something to do."""
    return Diagnosis(part, Verdict.WRONG, seen, advice)


def warning(part: str, seen: str, advice: str) -> Diagnosis:
    """Something to do soon."""
    return Diagnosis(part, Verdict.WARNING, seen, advice)


class Patient:
    """The service as one command sees it: connections that fail after seconds, not minutes."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def sessions(self) -> sessionmaker[Session]:
        """Sessions on its database."""
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
        """Its Redis."""
        return make_redis(self.settings.redis_url, max_connections=2)

    @cached_property
    def celery(self) -> MigrationCelery:
        """Its Celery application, to ask the workers."""
        return create_celery(self.settings)


def examine(patient: Patient) -> Iterator[Diagnosis]:
    """Look at every part, the foundations first; what stands on a part that is away is not looked at."""
    yield from _guarded("settings", check_settings, patient)
    database = yield from _remembered(_guarded("database", check_database, patient))
    redis = yield from _remembered(_guarded("redis", check_redis, patient))
    broker = yield from _remembered(_guarded("broker", check_broker, patient))
    for part, check, needed in _STANDING_ON:
        present = {"database": database, "redis": redis, "broker": broker}
        missing = [name for name in needed if not present[name]]
        if missing:
            yield Diagnosis(part, Verdict.UNKNOWN, f"not looked at, as the {missing[0]} is away")
        else:
            yield from _guarded(part, check, patient)


Check = Callable[[Patient], Iterator[Diagnosis]]


def _guarded(part: str, check: Check, patient: Patient) -> Iterator[Diagnosis]:
    try:
        yield from check(patient)
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


def check_settings(patient: Patient) -> Iterator[Diagnosis]:
    """They could be read; is there one that should not go into production?"""
    settings = patient.settings
    if len(set(settings.secret_key)) < 10:
        yield warning(
            "settings", "MIGRATION_SERVICE_SECRET_KEY looks made up", "Use 32 random characters or more."
        )
    else:
        yield ok("settings", f"read; home folder {settings.home}")


def check_database(patient: Patient) -> Iterator[Diagnosis]:
    """It answers, and is new enough."""
    with patient.sessions.begin() as session:
        version = int(session.scalar(text("SHOW server_version_num")) or 0) // 10_000
    if version < _OLDEST_POSTGRES:
        yield wrong("database", f"PostgreSQL {version}", f"PostgreSQL {_OLDEST_POSTGRES} or newer is needed.")
    else:
        yield ok("database", f"PostgreSQL {version} answers")


def check_redis(patient: Patient) -> Iterator[Diagnosis]:
    """It answers, and forgets nothing by itself."""
    patient.redis.ping()
    configuration = patient.redis.config_get("maxmemory-policy")
    policy = configuration.get("maxmemory-policy", "noeviction")
    if policy != "noeviction":
        yield warning(
            "redis",
            f"answers, and may forget messages: maxmemory-policy is {policy}",
            "Set maxmemory-policy to noeviction; nothing is lost, but much is delayed otherwise.",
        )
    else:
        yield ok("redis", "answers")


def check_broker(patient: Patient) -> Iterator[Diagnosis]:
    """A connection as workers and publishers open it."""
    with patient.celery.connection_for_read() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0, timeout=5)
        yield ok("broker", f"{connection.transport.driver_type} answers")


def check_revisions(patient: Patient) -> Iterator[Diagnosis]:
    """The tables are those of this version."""
    with patient.sessions.begin() as session:
        found = current_revision(session.connection())
    newest = newest_revision()
    if found != newest:
        yield wrong("revisions", f"the tables are at {found or 'none'}, not {newest}", _ADVICE["revisions"])
    else:
        yield ok("revisions", f"the tables are at {newest}")


def check_clocks(patient: Patient) -> Iterator[Diagnosis]:
    """Leases and redelivery compare times of several machines."""
    before = time.time()
    with patient.sessions.begin() as session:
        database = float(session.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0)
    seconds, microseconds = patient.redis.time()
    here = (before + time.time()) / 2
    difference = max(abs(database - here), abs(seconds + microseconds / 1e6 - here))
    if difference > _CLOCK_TOLERANCE:
        yield wrong("clocks", f"{difference:.1f} s apart", "Keep the clocks of all machines in step (NTP).")
    else:
        yield ok("clocks", "this machine, the database and Redis agree")


def check_workers(patient: Patient) -> Iterator[Diagnosis]:
    """Each queue has a worker that answers."""
    answers = patient.celery.control.inspect(timeout=2.0).active_queues() or {}
    for queue in QUEUES:
        workers = sorted(
            worker for worker, queues in answers.items() if queue in {active["name"] for active in queues}
        )
        if workers:
            yield ok(f"queue {queue}", f"{len(workers)} workers: {', '.join(workers)}")
        else:
            yield wrong(
                f"queue {queue}",
                "no worker answers",
                f"Start one: celery -A celery_worker worker -Q {queue} "
                "(a worker that is busy to the last process answers, too).",
            )


def check_beat(patient: Patient) -> Iterator[Diagnosis]:
    """The sweep ran lately, so there is a beat, and a worker that does what it says."""
    age = Slots(patient.redis).seconds_since_reconcile()
    advice = "Start one beat (celery -A celery_worker beat), and a worker for the queue maintenance."
    if age is None:
        yield wrong("beat", "the sweep has never run", advice)
    elif age > SWEEP_INTERVAL * _MISSED_SWEEPS:
        yield wrong("beat", f"the sweep ran {age:.0f} s ago, and should every {SWEEP_INTERVAL:.0f} s", advice)
    else:
        yield ok("beat", f"the sweep ran {age:.0f} s ago")


def check_slots(patient: Patient) -> Iterator[Diagnosis]:
    """As many slots are held as there are attempts in progress; both change all the time, so look again."""
    for look in range(_LOOKS):
        if look:
            time.sleep(_PAUSE_SECONDS)
        in_use = Slots(patient.redis).in_use()
        with patient.sessions.begin() as session:
            now = read_in_progress(session)
        if in_use == now.attempts:
            break
    limit = "no limit" if now.limit is None else f"limit {now.limit}"
    seen = f"{in_use} held, {now.attempts} attempts in progress, {limit}"
    if now.limit is not None and in_use > now.limit:
        yield warning("slots", seen, "The limit was lowered, or Redis lost its data: this ends by itself.")
    elif in_use > now.attempts + max(5, now.attempts // 10):
        yield warning("slots", seen, "The sweep frees those of dead requests within 20 s: look at beat.")
    else:
        yield ok("slots", seen)


def check_stuck_attempts(patient: Patient) -> Iterator[Diagnosis]:
    """Nothing is in progress for longer than its tries can take."""
    with patient.sessions.begin() as session:
        stuck = find_stuck_attempts(session, seconds=_STUCK_SECONDS)
    if not stuck:
        yield ok("attempts", f"none is in progress for more than {_STUCK_SECONDS:.0f} s")
    for attempt in stuck:
        yield wrong(
            "attempts",
            f"{attempt.import_supplier} {attempt.external_account_number} is in progress for "
            f"{attempt.seconds:.0f} s, {attempt.tries} tries",
            "With beat and workers well it is created or given up within a minute: start those first.",
        )


_STANDING_ON: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("revisions", check_revisions, ("database",)),
    ("clocks", check_clocks, ("database", "redis")),
    ("workers", check_workers, ("broker",)),
    ("beat", check_beat, ("redis",)),
    ("slots", check_slots, ("database", "redis")),
    ("attempts", check_stuck_attempts, ("database",)),
)
