"""Traces: a request and the task that it caused are one trace, sent to a collector."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from migration_service.config import Settings
from support.receivers import Receiver, receiving
from support.servers import wait_until
from support.supplier_client import SupplierClient
from support.web_servers import ROOT
from support.workers import worker

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


def _spans(receiver: Receiver) -> list[tuple[str, Span]]:
    """Return the spans that were sent, each with the name of its service."""
    found = []
    for _, body in receiver.requests:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            (service,) = [
                it.value.string_value for it in resource.resource.attributes if it.key == "service.name"
            ]
            found += [(service, span) for scope in resource.scope_spans for span in scope.spans]
    return found


def _find(receiver: Receiver, service: str, name: str) -> Span | None:
    """Return the span of this name, or None if it has not arrived."""
    return next((span for of, span in _spans(receiver) if of == service and span.name == name), None)


def test_a_request_and_its_task_are_one_trace(
    migrated: Settings, supplier: SupplierClient, tmp_path: Path
) -> None:
    (payload,) = supplier.accounts()
    with receiving() as collector:
        collector.answer(200)
        variables = {
            "DATABASE_URL": migrated.database_url,
            "REDIS_URL": migrated.redis_url.removesuffix("0") + "7",
            "MIGRATION_SERVICE_SECRET_KEY": migrated.secret_key,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url.removesuffix("/events"),
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        with worker("interactive", tmp_path, "-c", "1", **variables):
            subprocess.run(
                [sys.executable, "-c", _REQUEST],
                input=json.dumps([supplier.token, payload, supplier.team]),
                check=True,
                text=True,
                env=os.environ | variables | {"PYTHONPATH": str(ROOT)},
                cwd=tmp_path,
            )
            sent_by_worker = partial(_find, collector, "migration-service-worker", "run/accounts.create_set")
            wait_until(sent_by_worker, "the task's span")
        spans, task = _spans(collector), sent_by_worker()
        path = "POST /v1/data-import/account-import-process/process/"
        request = _find(collector, "migration-service-web", path)
    assert request
    assert task
    assert task.trace_id == request.trace_id
    assert {"migration-service-web", "migration-service-worker"} <= {
        service
        for service, span in spans
        if span.trace_id == request.trace_id and span.name.startswith(("SELECT", "WITH"))
    }
    assert payload["customers"][0]["family_name"] not in str(spans)
