"""The Celery application, with the connections of the process for tasks."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from celery import Celery, current_app

from migration_service.config import Settings

if TYPE_CHECKING:
    from migration_service.tasks.resources import WorkerResources


class MigrationCelery(Celery):
    """Celery with the service's settings. Only the children of a worker connect, each separately."""

    def __init__(self, settings: Settings, **kwargs: Any) -> None:
        super().__init__("migration_service", **kwargs)
        self.settings = settings

    @cached_property
    def resources(self) -> "WorkerResources":
        """Return the connections, opened for the first task of a process. Forks must never share them."""
        # Imported here, because beat and Flower run no tasks.
        from migration_service.tasks.resources import connect  # noqa: PLC0415

        return connect(self.settings)


def celery_app() -> MigrationCelery:
    """Return the application of the running task."""
    return cast(MigrationCelery, current_app)
