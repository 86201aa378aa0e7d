"""Metrics for Prometheus. They require the token, or are limited to this machine if no token is set.

The metrics that are read from Redis and from small database indexes for each request to /metrics.

They describe the whole service. All web servers show the same values, so queries use `max`, not `sum`.
"""

import hmac
import logging
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from ipaddress import ip_address
from typing import Any

from flask import Blueprint, Response, request
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from redis import RedisError
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from migration_service.blueprints.requests.resources import Resources, resources
from migration_service.connections import try_write
from migration_service.errors import NotFoundError, UnauthenticatedError
from migration_service.metrics import shared as measured
from migration_service.metrics.broker import read_broker
from migration_service.metrics.disks import read_disks
from migration_service.metrics.process import CONTENT_TYPE, exposition
from migration_service.services.events.horizon import find_holder
from migration_service.services.processing.slots import Slots
from migration_service.services.reporting import counts as counting
from migration_service.services.setup.backups import find_last_backup
from migration_service.services.waves.reading import WaitingWave, list_waiting
from migration_service.services.waves.states import DECIDABLE
from migration_service.tasks.names import KEY_PREFIX, QUEUES

logger = logging.getLogger(__name__)

#: The result is reused for this many seconds, so that simultaneous requests cost no more than one.
FRESH_SECONDS = 2.0


class ServiceMetrics(Collector):
    """The metrics of the whole service."""

    def __init__(self, shared: Resources) -> None:
        self._Session = shared.Session
        self._redis = shared.redis
        self._settings = shared.settings
        self._commits = shared.commits
        self._lock = threading.Lock()
        self._known: list[Metric] = []
        self._known_at = -math.inf

    def collect(self) -> Iterable[Metric]:
        """Return every available metric. `migration_part_up` shows which parts are unavailable."""
        with self._lock:
            if time.monotonic() - self._known_at > FRESH_SECONDS:
                self._known = list(self._read())
                self._known_at = time.monotonic()
            return self._known

    def _read(self) -> Iterator[Metric]:
        up: list[tuple[str, int]] = []
        for part, read, expected in (
            ("database", self._read_database, SQLAlchemyError),
            ("redis", self._read_redis, RedisError),
        ):
            try:
                yield from list(read())
                up.append((part, 0 if part == "database" and self._commits.commits_wait() else 1))
            except expected as error:
                logger.warning("%s is unavailable for /metrics: %s", part, type(error).__name__)
                up.append((part, 0))
        yield _gauge("migration_part_up", "Whether a part answers and accepts writes.", ["part"], up)
        disks = read_disks(self._settings.home, self._settings.upload_folder)
        yield _gauge(
            "migration_disk_free_bytes",
            "Free bytes on the disk of a folder of this machine.",
            ["folder"],
            ((disk.kept, disk.free) for disk in disks),
        )
        yield _gauge(
            "migration_disk_size_bytes",
            "The size of that disk.",
            ["folder"],
            ((disk.kept, disk.size) for disk in disks),
        )

    def _read_database(self) -> Iterator[Metric]:
        with self._Session.begin() as session:
            now = counting.read_in_progress(session)
            batches = counting.read_open_batches(session)
            waiting = list_waiting(session)
            stored = counting.read_database_bytes(session)
            replication_slots = counting.list_replication_slots(session)
            holder = find_holder(session)
            backup = find_last_backup(session)
            database_time = session.scalar(select(func.extract("epoch", func.clock_timestamp())))
            offset = time.time() - float(database_time or 0)
        yield GaugeMetricFamily("migration_database_bytes", "The size of the database.", value=stored)
        yield GaugeMetricFamily(
            "migration_clock_offset_seconds",
            "How far the clock of this web server is ahead of that of PostgreSQL.",
            value=offset,
        )
        if backup:
            yield GaugeMetricFamily(
                "migration_backup_age_seconds",
                "The time since the last backup, as `migration-service backups taken` was told.",
                value=max(0.0, time.time() - backup.timestamp()),
            )
        yield _gauge(
            "migration_replication_slot_held_bytes",
            "Bytes of WAL that a replication slot retains.",
            ["slot"],
            ((slot.name, slot.held_bytes) for slot in replication_slots),
        )
        yield _gauge(
            "migration_replication_slot_active",
            "Whether a replication slot is read.",
            ["slot"],
            ((slot.name, slot.active) for slot in replication_slots),
        )
        yield GaugeMetricFamily(
            "migration_attempts_in_progress",
            "Accounts that are being created, for requests and for batches.",
            value=now.attempts,
        )
        yield GaugeMetricFamily(
            "migration_oldest_dispatch_age_seconds",
            "Age of the oldest attempt in progress of a single request.",
            value=now.oldest_seconds,
        )
        yield GaugeMetricFamily(
            "migration_slots_limit",
            "The largest number of accounts processed at the same time, or +Inf without a limit.",
            value=math.inf if now.limit is None else now.limit,
        )

        yield GaugeMetricFamily(
            "migration_event_horizon_age_seconds",
            "Age of the oldest open transaction that has written something. No later event can be read yet.",
            value=holder.seconds if holder else 0.0,
        )
        yield from _batch_metrics(batches)
        yield _read_decisions({it.import_supplier for it in batches}, waiting)

    def _read_redis(self) -> Iterator[Metric]:
        try_write(self._redis)
        slots = Slots(self._redis)
        yield GaugeMetricFamily("migration_slots_in_use", "Slots that are held.", value=slots.in_use())
        age = slots.seconds_since_reconcile()
        yield GaugeMetricFamily(
            "migration_sweep_age_seconds",
            "Time since the sweep last compared the slots with the database. Beat starts a sweep every 5 s.",
            value=math.inf if age is None else age,
        )
        counts = read_broker(self._redis, QUEUES, KEY_PREFIX)
        yield _gauge(
            "migration_queue_messages",
            "Messages that no worker has taken.",
            ["queue"],
            counts.waiting.items(),
        )
        yield GaugeMetricFamily(
            "migration_unacknowledged_messages",
            "Messages that workers have taken and not finished.",
            value=counts.unacknowledged,
        )
        yield _histogram(
            "migration_task_duration_seconds",
            "Tasks by name and outcome.",
            ["task", "state"],
            measured.read_task_times(self._redis),
        )
        yield _histogram(
            "migration_vendor_call_duration_seconds",
            "Calls to payment vendors by outcome, including retries.",
            ["vendor", "outcome"],
            measured.read_vendor_calls(self._redis),
        )
        yield _histogram(
            "migration_queue_wait_seconds",
            "The time that messages waited in their queue before a worker started on them.",
            ["queue"],
            measured.read_queue_waits(self._redis),
            measured.WAIT_BUCKETS,
        )
        yield from self._read_counts()

    def _read_counts(self) -> Iterator[Metric]:
        counts = measured.read_counts(self._redis)
        if counts is None:
            return
        yield _gauge(
            "migration_accounts", "Account import processes.", ["supplier", "state"], counts["accounts"]
        )
        attempts = CounterMetricFamily(
            "migration_attempts", "Attempts that ended.", labels=["outcome", "code"]
        )
        for outcome, code, count in counts["attempts"]:
            attempts.add_metric([outcome, code], count)
        yield attempts
        yield GaugeMetricFamily(
            "migration_counted_timestamp_seconds",
            "When accounts and attempts were counted, as a Unix time.",
            value=counts["counted_at"],
        )


def _gauge(name: str, about: str, labels: list[str], rows: Iterable[tuple[Any, ...]]) -> Metric:
    """Return a gauge with a value for each row: its labels, and the number."""
    gauge = GaugeMetricFamily(name, about, labels=labels)
    for *labelled, number in rows:
        gauge.add_metric(labelled, number)
    return gauge


def _histogram(
    name: str,
    about: str,
    labels: list[str],
    found: Iterable[measured.Times],
    buckets: Sequence[float] = measured.SECONDS_BUCKETS,
) -> Metric:
    limits = [*map(str, buckets), "+Inf"]
    histogram = HistogramMetricFamily(name, about, labels=labels)
    for times in found:
        counts = list(zip(limits, times.buckets, strict=True))
        histogram.add_metric(times.labels, counts, times.seconds)
    return histogram


def _batch_metrics(suppliers: list[counting.OpenBatches]) -> Iterator[Metric]:
    yield _gauge(
        "migration_open_batches",
        "Batches that have not ended.",
        ["supplier", "state"],
        ((it.import_supplier, *count) for it in suppliers for count in it.batches.items()),
    )
    yield _gauge(
        "migration_open_batch_lines",
        "Lines of the batches that have not ended.",
        ["supplier", "status"],
        ((it.import_supplier, *count) for it in suppliers for count in it.lines.items()),
    )
    yield _gauge(
        "migration_batch_idle_seconds",
        "The longest time for which no line of a running batch has been processed.",
        ["supplier"],
        ((it.import_supplier, it.idle_seconds) for it in suppliers),
    )
    yield _gauge(
        "migration_batches_paused_by_errors",
        "Batches that the error threshold has paused.",
        ["supplier"],
        ((it.import_supplier, it.paused_by_errors) for it in suppliers),
    )


def _read_decisions(suppliers: set[str], waiting: list[WaitingWave]) -> Metric:
    """Return how long each supplier's waves have waited for a decision, or 0 if none is waiting."""
    longest = {(code, str(state)): 0.0 for code in suppliers for state in DECIDABLE}
    for it in waiting:
        key = (it.import_supplier, it.wave.state)
        longest[key] = max(longest.get(key, 0.0), it.seconds)
    return _gauge(
        "migration_wave_decision_age_seconds",
        "The longest time for which a reconciled wave has waited for a person to decide.",
        ["supplier", "found"],
        ((*labels, seconds) for labels, seconds in sorted(longest.items())),
    )


blueprint = Blueprint("metrics", __name__)

# One for each application, because it keeps what it has read for a moment.
_metrics_of = cache(ServiceMetrics)
#: Headers that a proxy adds. If one is present, the address does not show whether the client is local.
_PROXY_HEADERS = ("Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via")
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.ASCII)


@blueprint.get("/metrics")
def metrics() -> Response:
    """Return all metrics in the text format of Prometheus. Raise NotFoundError or UnauthenticatedError."""
    settings = resources().settings
    _require_permission(settings.metrics_token)
    return Response(
        exposition(_metrics_of(resources()), shared_folder=settings.metrics_folder), content_type=CONTENT_TYPE
    )


def _require_permission(token: str) -> None:
    if token:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            raise UnauthenticatedError("The metrics require their bearer token.")
    elif not _asked_from_here():
        raise NotFoundError


def _asked_from_here() -> bool:
    forwarded = any(header in request.headers for header in _PROXY_HEADERS)
    peer = request.remote_addr
    # The name of another site can resolve to this machine. Browsers then send that name as the host.
    named_here = _LOOPBACK.fullmatch(request.host) is not None
    # A client of a Unix socket has no address.
    is_here = peer == "" or (peer is not None and ip_address(peer).is_loopback)
    return not forwarded and named_here and is_here
