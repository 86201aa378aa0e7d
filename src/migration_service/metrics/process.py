"""The counters and timers of this process, and the rendering of all metrics for Prometheus.

Every label has a closed set of values: route templates instead of paths, and codes instead of sentences.
`blueprints.metrics` has the metrics that are determined when they are requested.
"""

from collections.abc import Callable

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from migration_service.metrics.shared import SECONDS_BUCKETS

# The creation time of a series is not needed, and would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]

#: The content type of the result of `exposition`.
CONTENT_TYPE = CONTENT_TYPE_LATEST

REQUEST_SECONDS = Histogram(
    "migration_http_request_duration_seconds",
    "Requests by route, with the time until the last byte was sent.",
    ("method", "route", "status"),
    buckets=SECONDS_BUCKETS,
)

SECURITY_EVENTS = Counter(
    "migration_security_events_total", "Logins, tokens and requests that were refused, by kind.", ("event",)
)

REFERENCE_READS = Counter(
    "migration_reference_reads_total",
    "Reads of API keys, sessions and import suppliers, by where they were answered from.",
    ("source",),
)


def exposition(collector: Collector, *, shared_folder: str) -> bytes:
    """Return the metrics of all processes of this server, and the current metrics of `collector`.

    If the server has several processes, each keeps its numbers in a file in `shared_folder`, and the process
    that answers adds them up. The folder is empty for a single process.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    counted = CollectorRegistry()
    if shared_folder:
        make_collector: Callable[[CollectorRegistry, str], object] = MultiProcessCollector
        make_collector(counted, shared_folder)  # registers itself
    else:
        counted = REGISTRY
    return generate_latest(counted) + generate_latest(registry)
