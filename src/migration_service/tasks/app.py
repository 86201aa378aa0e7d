"""The Celery application as tasks see it: with the connections of the process they run in."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from celery import Celery, current_app
from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.engine import make_engine, make_sessionmaker
from migration_service.slots import Slots

#: What waits for what: requests, batches, upkeep.
QUEUES = ("interactive", "batch", "maintenance")
#: What the broker's keys begin with, where the broker is a Redis.
KEY_PREFIX = "migration:"


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """The connections of one worker process."""

    Session: sessionmaker[Session]
    redis: Redis
    slots: Slots


class MigrationCelery(Celery):
    """Celery with the service's settings. Only the children of a worker connect, each for itself."""

    def __init__(self, settings: Settings, **kwargs: Any) -> None:
        super().__init__("migration_service", **kwargs)
        self.settings = settings

    @cached_property
    def resources(self) -> WorkerResources:
        """Made when the first task of a process asks; a connection must never be shared across a fork."""
        engine = make_engine(
            self.settings.database_url,
            pool_size=1,
            max_overflow=1,
            application_name="migration-worker",
            pooler=self.settings.database_pooler,
        )
        redis = make_redis(self.settings.redis_url)
        return WorkerResources(make_sessionmaker(engine), redis, Slots(redis))


def celery_app() -> MigrationCelery:
    """The application that the running task belongs to."""
    return cast(MigrationCelery, current_app)
