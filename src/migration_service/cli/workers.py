"""`migration-service workers`."""

import time

import click
from kombu.exceptions import OperationalError

from migration_service.celery_app import create_celery
from migration_service.cli.session import CannotRunError, RefusedError, read_settings
from migration_service.doctor.work_checks import list_workers
from migration_service.tasks.app import MigrationCelery

#: Seconds within which even a busy worker answers, and seconds to wait beyond the time limit of tasks.
_ANSWER_SECONDS, _SPARE_SECONDS = 2.0, 15.0


@click.group()
def workers() -> None:
    """Drain the workers of a host."""


@workers.command()
@click.argument("host")
def drain(host: str) -> None:
    """Stop giving work to the workers of HOST, and wait until they have finished their tasks.

    HOST is the part of their names after the @, which `doctor` prints. The workers keep running without work
    until they are restarted. The exit status is 1 if a task is not finished after its time limit.
    """
    celery = create_celery(read_settings(without=("database_url", "secret_key")), loads_tasks=False)
    try:
        _drain(celery, host)
    except (OperationalError, OSError) as error:
        raise CannotRunError(f"The broker cannot be reached: {error}") from error
    finally:
        celery.close()


def _drain(celery: MigrationCelery, host: str) -> None:
    drained: set[str] = set()
    # A worker that was busy may not have answered in time.
    while names := _stop_taking(celery, host):
        drained.update(names)
    if not drained:
        answering = sorted(
            {name for found in list_workers(celery, _ANSWER_SECONDS).values() for name in found}
        )
        raise RefusedError(
            f"No worker of {host} takes work. Workers that do: {', '.join(answering) or 'none'}."
        )
    # Nothing is known about a worker that never answered.
    click.echo(
        f"Without work: {', '.join(sorted(drained))}. Stop them, or restart them to give them work again."
    )


def _stop_taking(celery: MigrationCelery, host: str) -> list[str]:
    """Drain the workers of the host that take work, and return their names."""
    by_queue = list_workers(celery, _ANSWER_SECONDS)
    names = sorted({name for found in by_queue.values() for name in found if name.endswith(f"@{host}")})
    if not names:
        return []
    for queue, found in by_queue.items():
        if ours := [name for name in found if name in names]:
            celery.control.cancel_consumer(queue, destination=ours, reply=True, timeout=_ANSWER_SECONDS)
            if ours == found:
                click.echo(f"No other worker takes the queue {queue}: its messages wait.")
    click.echo(f"No further work: {', '.join(names)}.")
    deadline = time.monotonic() + celery.conf.task_time_limit + _SPARE_SECONDS
    while left := _what_is_left(celery, names):
        if time.monotonic() > deadline:
            raise RefusedError(f"Not finished: {'; '.join(left)}.")
        time.sleep(0.5)
    return names


def _what_is_left(celery: MigrationCelery, names: list[str]) -> list[str]:
    """Return a phrase about each of these workers that has tasks, or may have."""
    inspect = celery.control.inspect(destination=names, timeout=_ANSWER_SECONDS)
    queues, active, reserved = inspect.active_queues() or {}, inspect.active() or {}, inspect.reserved() or {}
    left = []
    for name in names:
        if not all(name in answers for answers in (queues, active, reserved)):
            left.append(f"{name} does not answer")
            continue
        tasks = len(active[name]) + len(reserved[name])
        if queues[name]:
            left.append(f"{name} takes work again")
        elif tasks:
            left.append(f"{name} has {tasks} {'task' if tasks == 1 else 'tasks'}")
    return left
