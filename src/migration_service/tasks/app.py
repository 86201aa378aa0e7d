"""The Celery application as tasks use it, with the connections of their process."""

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

#: The queues: for requests, for batches, for batches that ask payment vendors, for maintenance.
QUEUES = ("interactive", "batch", "vendors", "maintenance")
#: The prefix of the broker's keys, if the broker is a Redis.
KEY_PREFIX = "migration:"


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """The connections of one worker process."""

    Session: sessionmaker[Session]
    redis: Redis
    slots: Slots


class MigrationCelery(Celery):
    """Celery with the service's settings. Only the children of a worker connect, each by itself."""

    def __init__(self, settings: Settings, **kwargs: Any) -> None:
        super().__init__("migration_service", **kwargs)
        self.settings = settings

    @cached_property
    def resources(self) -> WorkerResources:
        """Return the connections, made for the first task of a process. A fork must never share them."""
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
    """Return the application of the running task."""
    return cast(MigrationCelery, current_app)
