"""The results of the checks of `migration-service doctor`, and the connections used by the checks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.engine import make_sessionmaker, service_engine
from migration_service.tasks.app import MigrationCelery


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    #: The part works, but should be changed.
    WARNING = "warning"
    WRONG = "wrong"
    #: The part could not be checked, because another part that it needs is wrong.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One line of the doctor's report: the part, the result, the finding and the advice."""

    part: str
    verdict: Verdict
    seen: str
    advice: str = ""


def ok(seen: str, *, part: str = "") -> Diagnosis:
    """Return a diagnosis that needs no action. Without `part`, it is about the part that is checked."""
    return Diagnosis(part, Verdict.OK, seen)


def wrong(seen: str, advice: str, *, part: str = "") -> Diagnosis:
    """Return a diagnosis that needs action."""
    return Diagnosis(part, Verdict.WRONG, seen, advice)


def warning(seen: str, advice: str, *, part: str = "") -> Diagnosis:
    """Return a diagnosis that needs action soon."""
    return Diagnosis(part, Verdict.WARNING, seen, advice)


class ServiceParts:
    """The connections of the doctor, with time-outs of seconds.

    `make_celery` returns the Celery application created by a composition root.
    """

    def __init__(self, settings: Settings, make_celery: Callable[[Settings], MigrationCelery]) -> None:
        self.settings = settings
        self._make_celery = make_celery

    @cached_property
    def sessions(self) -> sessionmaker[Session]:
        """Sessions on the database."""
        return make_sessionmaker(service_engine(self.settings, "migration-doctor", max_overflow=0))

    @cached_property
    def redis(self) -> Redis:
        """A client for Redis."""
        return make_redis(self.settings.redis_url, max_connections=2)

    def close(self) -> None:
        """Close the connections that were opened."""
        opened = vars(self)
        if "sessions" in opened:
            self.sessions.kw["bind"].dispose()
        if "redis" in opened:
            self.redis.close()
        if "celery" in opened:
            self.celery.close()

    @cached_property
    def celery(self) -> MigrationCelery:
        """The Celery application, for asking the workers."""
        return self._make_celery(self.settings)


Check = Callable[[ServiceParts], Iterator[Diagnosis]]
