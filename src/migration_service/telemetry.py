"""OpenTelemetry traces from a request, through its message and task, to the database statements.

Optional: the packages are in the extra `otel`, and this module is imported only if
OTEL_EXPORTER_OTLP_ENDPOINT is set. All other standard variables (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
OTEL_EXPORTER_OTLP_HEADERS ...) are read by OpenTelemetry itself.
"""

from typing import Any

from celery.signals import worker_process_init, worker_process_shutdown
from flask import Flask
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.instrumentation.psycopg import PsycopgInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

#: Paths that monitoring requests every few seconds, which are not traced.
_QUIET = "health/.*,metrics"


def trace_web(app: Flask) -> None:
    """Trace the requests of this web process, and pass the trace on to the tasks."""
    _start_exporter("migration-service-web")
    FlaskInstrumentor().instrument_app(app, excluded_urls=_QUIET)
    CeleryInstrumentor().instrument()
    PsycopgInstrumentor().instrument()


def trace_workers() -> None:
    """Trace the tasks in each child of a worker: a thread that sends spans does not survive a fork."""

    def start(**_kwargs: Any) -> None:
        provider = _start_exporter("migration-service-worker")
        CeleryInstrumentor().instrument()
        PsycopgInstrumentor().instrument()

        def send_the_rest(**_kwargs: Any) -> None:
            provider.shutdown()

        worker_process_shutdown.connect(send_the_rest, weak=False)

    worker_process_init.connect(start, weak=False)


def _start_exporter(service_name: str) -> TracerProvider:
    # OTEL_SERVICE_NAME takes precedence over this name.
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: service_name}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider
