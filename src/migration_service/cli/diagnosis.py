"""What a check of `migration-service doctor` comes to, and the connections that checks use."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.tasks.app import MigrationCelery


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


class Connections:
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


Check = Callable[[Connections], Iterator[Diagnosis]]
