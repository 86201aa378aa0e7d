"""Tells the workers immediately what a command has started. Without Redis, the sweep does so later.

Celery and the tasks are imported when they are needed: most commands only read, and would start slower.
"""
# ruff: noqa: PLC0415

from sqlalchemy.orm import Session, sessionmaker

from migration_service.config import Settings


def tell_batch_workers(settings: Settings, sessions: sessionmaker[Session]) -> None:
    """Dispatch the chunks of all batches that may run."""
    from migration_service.celery_app import create_celery
    from migration_service.tasks.batches import feed_batches

    feed_batches(create_celery(settings), sessions)


def tell_undo_workers(settings: Settings, sessions: sessionmaker[Session]) -> None:
    """Dispatch the undos that may run."""
    from migration_service.celery_app import create_celery
    from migration_service.tasks.undo import dispatch_undos

    dispatch_undos(create_celery(settings), sessions)
