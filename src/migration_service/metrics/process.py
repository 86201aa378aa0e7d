"""What this process counts and times for Prometheus, and how it is rendered.

Every label has a closed set of values: route templates and not paths, codes and not sentences, suppliers and
vendors that operators made. What is read at the moment of the question comes from
`blueprints.metrics_collector`.
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

# The creation time of a series is not needed, and would double the number of series.
disable_created_metrics()  # type: ignore[no-untyped-call]

#: The content type of what `exposition` returns.
CONTENT_TYPE = CONTENT_TYPE_LATEST

#: Seconds. A process request may wait for half a minute.
SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

REQUEST_SECONDS = Histogram(
    "migration_http_request_duration_seconds",
    "Requests by route, with the time until the last byte was handed over.",
    ("method", "route", "status"),
    buckets=SECONDS_BUCKETS,
)

VENDOR_CALL_SECONDS = Histogram(
    "migration_vendor_call_duration_seconds",
    "Questions to payment vendors, retries included, by how they ended.",
    ("vendor", "outcome"),
    buckets=SECONDS_BUCKETS,
)


SECURITY_EVENTS = Counter(
    "migration_security_events_total",
    "Logins, tokens and requests that were refused, by kind.",
    ("event",),
)


def exposition(collector: Collector, *, shared_folder: str) -> bytes:
    """Return everything that the processes of this server counted, and what `collector` reads now.

    If the server has several processes, each keeps its numbers in a file in `shared_folder`, and the process
    that is asked adds them up. It is empty for a single process.
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
