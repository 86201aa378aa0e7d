"""Beat's schedule: every entry runs on a queue that a worker consumes, also after a restart of the broker."""

import pytest
from flask import Flask

from migration_service.blueprints.requests.resources import resources
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.names import QUEUES
from migration_service.tasks.resources import WorkerResources

ENTRIES = ("sweep", "count-accounts", "customer-emails", "batches", "undos", "waves", "removal")


def _celery(app: Flask) -> MigrationCelery:
    with app.app_context():
        return resources().celery


def test_beat_retries_because_only_that_opens_a_lost_connection_again(app: Flask) -> None:
    schedule = _celery(app).conf.beat_schedule
    assert schedule
    assert all(entry["options"]["retry"] for entry in schedule.values())


def test_a_message_that_no_worker_took_in_time_expires_before_the_next_one_is_due(app: Flask) -> None:
    schedule = _celery(app).conf.beat_schedule
    assert {name: entry["options"]["expires"] for name, entry in schedule.items()} == {
        name: entry["schedule"] for name, entry in schedule.items()
    }


def test_every_entry_is_run_by_a_test(app: Flask) -> None:
    assert sorted(ENTRIES) == sorted(_celery(app).conf.beat_schedule)


@pytest.mark.parametrize("name", ENTRIES)
def test_every_entry_names_a_task_that_runs_on_a_queue_that_a_worker_takes(
    worker_resources: WorkerResources, app: Flask, name: str
) -> None:
    celery = _celery(app)
    celery.set_current()
    celery.loader.import_default_modules()
    entry = celery.conf.beat_schedule[name]
    route = celery.amqp.router.route({}, entry["task"])
    assert route["queue"].name in QUEUES
    celery.tasks[entry["task"]].run()
