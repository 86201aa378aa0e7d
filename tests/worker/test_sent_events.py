"""Which messages Flower is told of when they are sent (`tasks/publishing.py`)."""

import json
from base64 import b64decode
from uuid import uuid4

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.tasks.accounts import publish_set
from migration_service.tasks.names import RUN_CHUNK
from migration_service.tasks.publishing import publish


def test_flower_is_told_of_a_chunk_when_it_is_sent_and_of_a_set_when_it_is_received(
    migrated: Settings,
) -> None:
    """An announcement is in the way of a waiting client, and says nothing of any account."""
    celery, redis = create_celery(migrated), make_redis(migrated.redis_url)
    with redis.pubsub() as events:  # type: ignore[no-untyped-call]
        events.psubscribe("*celeryev*")
        assert events.get_message(timeout=5)  # it listens
        assert publish_set(celery)
        assert publish(celery, RUN_CHUNK, str(uuid4()), 1)
        first = events.get_message(timeout=5)
    told = json.loads(b64decode(json.loads(first["data"])["body"]))
    assert (told["type"], told["name"]) == ("task-sent", RUN_CHUNK)
    assert redis.llen("migration:interactive") == 1
    redis.close()
    celery.close()
