"""The Celery application for workers: `celery -A celery_worker worker -Q interactive`."""

from typing import Any

from celery.signals import worker_init

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.loading import begin_loading, end_loading
from migration_service.log import configure_logging
from migration_service.tasks.acknowledging import release_what_is_not_acknowledged
from migration_service.tasks.worker_pool import end_promptly

settings = Settings.from_env(without=("secret_key",))
configure_logging(settings.log_level, settings.log_format)
celery = create_celery(settings)
if settings.traces_endpoint:
    from migration_service.telemetry import trace_workers

    trace_workers()
end_promptly()
release_what_is_not_acknowledged()


@worker_init.connect
def _end_loading(**_kwargs: Any) -> None:
    """The tasks have been loaded, and no child has been forked yet."""
    end_loading()


begin_loading()
