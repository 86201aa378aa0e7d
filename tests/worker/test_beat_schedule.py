"""Beat's schedule: every entry runs on a queue that a worker consumes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from unittest.mock import patch

import pytest
from flask import Flask
from kombu.utils import symbol_by_name

from migration_service.blueprints.requests.resources import resources
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.tasks import steady_beat
from migration_service.tasks.app import MigrationCelery
from migration_service.tasks.names import (
    QUEUES,
    SWEEP_ATTEMPTS,
    SWEEP_BATCHES,
    SWEEP_COMPARISONS,
    SWEEP_DELIVERIES,
    SWEEP_INTERVAL,
    SWEEP_UNDOS,
    SWEEP_WAVES,
)
from migration_service.tasks.resources import WorkerResources

ENTRIES = (
    *("sweep", "count-accounts", "batches", "comparisons", "undos", "waves", "deliveries", "events"),
    "removal",
)


def _celery(app: Flask) -> MigrationCelery:
    with app.app_context():
        return resources().celery


def test_each_entry_is_sent_at_the_start_and_once_in_its_interval_whatever_the_clock_says(
    app: Flask, monkeypatch: pytest.MonkeyPatch
) -> None:
    celery, sent, clock = _celery(app), [], SimpleNamespace(monotonic=lambda: 1_000.0)
    monkeypatch.setattr(steady_beat, "time", clock)
    # Not with monkeypatch, which would leave an attribute on the application that later tests share.
    with (
        patch.object(celery, "send_task", lambda task, *_args, **_options: sent.append(task)),
        patch.object(celery, "now", wraps=celery.now) as now,
    ):
        scheduler = symbol_by_name(celery.conf.beat_scheduler)(app=celery)
        assert scheduler.tick() == SWEEP_INTERVAL
        assert len(sent) == len(ENTRIES)
        assert scheduler.tick() == SWEEP_INTERVAL
        assert len(sent) == len(ENTRIES)
        now.return_value = datetime.now(UTC) - timedelta(hours=1)
        clock.monotonic = lambda: 1_000.0 + SWEEP_INTERVAL
        scheduler.tick()
    sweeps = (SWEEP_ATTEMPTS, SWEEP_BATCHES, SWEEP_COMPARISONS, SWEEP_DELIVERIES, SWEEP_UNDOS, SWEEP_WAVES)
    assert sorted(sent[len(ENTRIES) :]) == sorted(sweeps)


def test_beat_says_in_one_line_that_it_cannot_send(
    migrated: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    celery = create_celery(replace(migrated, redis_url="redis://127.0.0.1:1/0"), loads_tasks=False)
    scheduler = symbol_by_name(celery.conf.beat_scheduler)(app=celery)
    scheduler.apply_entry(scheduler.schedule["sweep"])
    celery.close()
    (line,) = [it for it in caplog.records if it.levelname == "ERROR"]
    assert "could not send maintenance.sweep_attempts" in line.getMessage()
    assert line.exc_info is None


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
