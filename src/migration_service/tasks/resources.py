"""The connections of a worker process."""

from dataclasses import dataclass

from redis import Redis
from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.db.engine import make_sessionmaker, service_engine
from migration_service.db.known_commits import KnownCommit
from migration_service.payment_vendors.calls import CALLS as VENDOR_CALLS
from migration_service.services.processing.slots import Slots


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """The connections of one worker process."""

    Session: sessionmaker[Session]
    redis: Redis
    slots: Slots


def connect(settings: Settings) -> WorkerResources:
    """Return the connections of a process that runs one task at a time."""
    engine = service_engine(settings, "migration-worker", kind=KnownCommit)
    redis = make_redis(settings.redis_url)
    VENDOR_CALLS.keep_in(redis)
    return WorkerResources(make_sessionmaker(engine), redis, Slots(redis))
