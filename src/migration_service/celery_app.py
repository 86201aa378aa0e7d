"""The composition root of the Celery application: its queues, schedule and reliability settings.

PostgreSQL is the queue of record. A message only tells a worker to read a row. If one is lost, the sweep
publishes it again some seconds later. If one is delivered twice, the second delivery finds nothing to do.

A heartbeat for health checks: a file whose modification time shows when a worker or beat was last active.

A health check that ran a Celery command every few seconds would cost more than the work that it monitors.
Reading the age of a file costs nothing.
"""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from celery.signals import after_task_publish, beat_init, heartbeat_sent, setup_logging
from kombu import Queue

from migration_service.config import Settings
from migration_service.connections import Sentinels
from migration_service.metrics.broker import UNACKED_KEY
from migration_service.tasks import names
from migration_service.tasks.app import MigrationCelery

#: The most publishing connections of a web process. With fewer, requests would queue behind a broker that
#: does not respond.
_BROKER_POOL = 200


_TASKS = [
    f"migration_service.tasks.{name}"
    for name in ("accounts", "batches", "deliveries", "jobs", "maintenance", "run_log")
]


def create_celery(settings: Settings, *, loads_tasks: bool = True) -> MigrationCelery:
    """Return the Celery application with `settings`, for workers, beat, Flower and publishers.

    Beat and Flower load no tasks, only their names.
    """
    sentinels = Sentinels.of(settings.redis_url)
    broker = sentinels.broker_url if sentinels else settings.redis_url
    celery = MigrationCelery(settings, broker=broker, set_as_current=True)
    if settings.heartbeat_file:
        show_heartbeat(Path(settings.heartbeat_file))
    celery.conf.update(
        imports=_TASKS if loads_tasks else [],
        task_queues=[Queue(name) for name in names.QUEUES],
        task_default_queue="interactive",
        task_create_missing_queues=False,
        task_routes={
            "accounts.*": {"queue": "interactive"},
            names.RUN_VENDOR_CHUNK: {"queue": "vendors"},
            "batches.*": {"queue": "batch"},
            "comparisons.*": {"queue": "batch"},
            "certificates.*": {"queue": "batch"},
            "go_lives.*": {"queue": "batch"},
            "undos.*": {"queue": "batch"},
            "deliveries.*": {"queue": "deliveries"},
            "maintenance.*": {"queue": "maintenance"},
        },
        beat_schedule={
            "sweep": _every(names.SWEEP_INTERVAL, names.SWEEP),
            "count-accounts": _every(names.COUNT_INTERVAL, names.COUNT_ACCOUNTS),
            "events": _every(names.WATCH_INTERVAL, names.WATCH_EVENTS),
            "removal": _every(names.REMOVAL_INTERVAL, names.REMOVE_OLD_DATA),
        },
        **_RELIABILITY,
        broker_transport_options=_transport_options(settings, sentinels),
        broker_use_ssl=_tls_options(settings) or False,
    )
    return celery


def _every(seconds: float, task: str) -> dict[str, Any]:
    """Return an entry of beat's schedule. A message that no worker takes within an hour expires.

    It must not expire sooner, because the clock of the worker's host decides, which may be ahead of beat's.
    """
    return {"task": task, "schedule": seconds, "options": {"expires": 3_700.0}}


_RELIABILITY: dict[str, Any] = {
    # A message is acknowledged when its task has ended. That of a killed child is redelivered immediately.
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    # No result backend, because the outcome is in the database.
    "task_ignore_result": True,
    "task_time_limit": 60,
    "task_soft_time_limit": 45,
    "worker_prefetch_multiplier": 1,
    # A short loss of the connection to Redis must not abort a healthy transaction.
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    # Usually four, within which a child that replaces another one has not always started on a busy host. It
    # is killed then, and so is the next one.
    "worker_proc_alive_timeout": 60.0,
    "worker_max_tasks_per_child": 10_000,
    "worker_max_memory_per_child": 400_000,
    # An idle worker ends immediately. Waiting is only useful for tasks with a countdown, and there are none.
    "worker_soft_shutdown_timeout": 25.0,
    "worker_enable_soft_shutdown_on_idle": False,
    # Flower shows sent, started and finished tasks.
    "worker_send_task_events": True,
    "task_send_sent_event": True,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "broker_pool_limit": _BROKER_POOL,
    # Requests do not retry, because the sweep does.
    "task_publish_retry": False,
    "beat_scheduler": "migration_service.tasks.steady_beat:SteadyScheduler",
}


def _tls_options(settings: Settings) -> dict[str, str]:
    """Return the TLS options of a rediss:// address. Flower reads them from here instead of the address."""
    address = urlsplit(settings.redis_url)
    given = dict(parse_qsl(address.query)) if address.scheme == "rediss" else {}
    return {name: value for name, value in given.items() if name.startswith("ssl_")}


def _transport_options(settings: Settings, sentinels: Sentinels | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "unacked_key": UNACKED_KEY,
        # No message has a priority. With the usual four, a worker would wait for four lists of each queue.
        "priority_steps": [0],
        "visibility_timeout": settings.broker_visibility_timeout,
        # Without these an unacknowledged message is redelivered up to 100 seconds late.
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": 2,
        "socket_connect_timeout": 1,
        "socket_keepalive": True,
        "health_check_interval": 5,
        "max_connections": _BROKER_POOL + 50,
        "global_keyprefix": names.KEY_PREFIX,
    }
    if sentinels:
        options |= {"master_name": sentinels.master_name, "sentinel_kwargs": sentinels.own_login}
    return options


@setup_logging.connect
def _set_up_logging(**_kwargs: Any) -> None:
    """Keep Celery from configuring logging, which the composition root has done."""


@beat_init.connect
def _send_no_events(sender: Any, **_kwargs: Any) -> None:
    """Keep the periodic tasks out of Flower, so that it shows nothing while the service is idle.

    Beat sends no other tasks. Their `send_events=False` does the same for the events of the worker.
    """
    sender.app.conf.task_send_sent_event = False


def show_heartbeat(path: Path) -> None:
    """Touch `path` while this process is active: with every heartbeat of a worker, or task sent by beat.

    A worker's heartbeat comes from the loop that takes messages, and stops while the broker is unavailable.
    """

    def touch(**_kwargs: Any) -> None:
        path.touch()

    def watch_beat(**_kwargs: Any) -> None:
        after_task_publish.connect(touch, weak=False)

    heartbeat_sent.connect(touch, weak=False)
    beat_init.connect(watch_beat, weak=False)
