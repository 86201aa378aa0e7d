"""The Celery application, with the connections of the process for tasks."""

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from celery import Celery, Task, current_app

from migration_service.config import Settings

if TYPE_CHECKING:
    from migration_service.tasks.resources import WorkerResources


class RepeatedTask(Task):  # type: ignore[type-arg]  # not generic at run time
    """A task that is repeated on the next primary server of PostgreSQL if it loses the last one.

    Every task may be repeated, because its message may be redelivered, too.
    """

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task."""
        # Imported here, because beat and Flower run no tasks: SQLAlchemy and psycopg are 27 MB of each.
        from migration_service.db.holding import repeat  # noqa: PLC0415

        return repeat(celery_app().resources.Session, partial(self.run, *args, **kwargs))


class MigrationCelery(Celery):
    """Celery with the service's settings. Only the children of a worker connect, each separately."""

    task_cls = f"{__name__}:{RepeatedTask.__name__}"

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
