"""Traces: a request and the task that it caused are one trace, sent to a collector."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from migration_service.config import Settings
from support.servers import ending_with_us, wait_until
from support.supplier_client import SupplierClient

ROOT = Path(__file__).resolve().parents[2]

# A web process. It stages and processes one account, and sends its traces.
_REQUEST = """
import json, sys
import wsgi
from opentelemetry import trace
token, payload, team = json.loads(sys.stdin.read())
client = wsgi.app.test_client()
headers = {"Authorization": f"Token {token}"}
path = "/v1/data-import/account-import-process/"
client.post(path + "create-or-update/", json=payload, headers=headers)
body = {
    "external_account_number": payload["external_account_number"],
    "import_supplier_code": payload["import_supplier"],
    "operations_team_name": team,
}
answer = client.post(path + "process/", json=body, headers=headers)
assert answer.status_code == 201, answer.text
trace.get_tracer_provider().shutdown()
"""


_WORKER = ("celery", "-A", "celery_worker", "worker", "-Q", "interactive", "-c", "1")


class Collector:
    """A receiver of OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, Span]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, body: bytes) -> None:
        """Keep the spans of one export, each with the name of its service."""
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            service = next(
                a.value.string_value for a in resource.resource.attributes if a.key == "service.name"
            )
            self.spans += [(service, span) for scope in resource.scope_spans for span in scope.spans]

    def find(self, service: str, name: str) -> Span | None:
        """Return the span of this name, or None if it has not arrived."""
        return next((span for of, span in self.spans if of == service and span.name == name), None)


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    yield collector
    collector.server.shutdown()
    thread.join()
    collector.server.server_close()


def test_a_request_and_its_task_are_one_trace(
    migrated: Settings, supplier: SupplierClient, collector: Collector, tmp_path: Path
) -> None:
    environment = os.environ | {
        "DATABASE_URL": migrated.database_url,
        "REDIS_URL": migrated.redis_url.removesuffix("0") + "7",
        "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "PYTHONPATH": str(ROOT),
    }
    worker = subprocess.Popen(
        ending_with_us(sys.executable, "-m", *_WORKER),
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        (payload,) = supplier.accounts()
        subprocess.run(
            [sys.executable, "-c", _REQUEST],
            input=json.dumps([supplier.token, payload, supplier.team]),
            check=True,
            text=True,
            env=environment,
            cwd=tmp_path,
        )
        task_name = "run/accounts.create_set"
        wait_until(lambda: collector.find("migration-service-worker", task_name), "the task's span")
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
    request = collector.find("migration-service-web", "POST /v1/data-import/account-import-process/process/")
    task = collector.find("migration-service-worker", task_name)
    assert request
    assert task
    assert task.trace_id == request.trace_id
    statements = [span for service, span in collector.spans if span.trace_id == request.trace_id]
    assert {"migration-service-web", "migration-service-worker"} <= {
        service
        for service, span in collector.spans
        if span in statements and span.name.startswith(("SELECT", "WITH"))
    }
    assert payload["customers"][0]["family_name"] not in str(collector.spans)
