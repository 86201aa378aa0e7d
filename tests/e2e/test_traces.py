"""What follows an account: one id through all logs, and the trace of a request with that of its task."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import requests
from aiosmtpd.controller import Controller
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from migration_service.config import Settings
from migration_service.outgoing.rules import AddressRules
from migration_service.services.setup.suppliers import set_customer_emails
from migration_service.services.webhooks.endpoints import create_endpoint
from migration_service.services.webhooks.secrets import Seal
from migration_service.states import EmailMoment
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.batch_client import NDJSON, ndjson
from support.mail_box import SENDER, Mailbox, free_port
from support.receivers import Receiver, receiving
from support.servers import wait_until
from support.supplier_client import API, SupplierClient
from support.web_servers import ROOT, needs_nginx, nginx, web_server
from support.workers import BEAT, worker

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


_QUEUES = "interactive,batch,deliveries,maintenance"


@dataclass
class _Logs:
    """The logs of a web server and of a worker."""

    web: Path
    worker: Path

    def of(self, id_: str) -> set[str]:
        """Return the messages of the lines with this id, without their times."""
        lines = [it for log in (self.web, self.worker) for it in log.read_text().splitlines()]
        found: list[dict[str, Any]] = [json.loads(it) for it in lines if it.startswith("{")]
        return {re.sub(r" in [\d.]+ ms$", "", str(it["message"])) for it in found if it["request_id"] == id_}


@needs_nginx
def test_one_id_follows_an_account_through_all_logs(
    migrated: Settings, supplier: SupplierClient, tmp_path: Path
) -> None:
    single, of_batch = supplier.accounts(2)
    for account, name in ((single, "anne"), (of_batch, "bart")):
        customer = {"given_name": name, "family_name": "de Vries", "email": f"{name}@customers.example"}
        account["customers"] = [customer]
    logs = _Logs(tmp_path / "web.log", tmp_path / "worker.log")
    mail = Controller(box := Mailbox(), hostname=LOOPBACK, port=free_port())
    mail.start()
    web = random_free_port()
    variables = {
        "DATABASE_URL": migrated.database_url,
        "REDIS_URL": migrated.redis_url,
        "MIGRATION_SERVICE_SMTP_URL": f"smtp://{LOOPBACK}:{mail.port}",
        "MIGRATION_SERVICE_EMAIL_FROM": SENDER,
    }
    with (
        receiving() as receiver,
        worker(_QUEUES, tmp_path, *BEAT, "-c", "1", **variables),
        web_server(migrated, web, processes=1, log=logs.web),
        nginx(web) as port,
    ):
        with supplier.Session.begin() as session:
            set_customer_emails(session, supplier.code, on=True, at=EmailMoment.AT_CREATION)
            rules = AddressRules.from_texts("127.0.0.0/8", allows_http=True)
            owner = supplier.organisation_id()
            endpoint, _ = create_endpoint(session, owner, rules, Seal([]), {"url": receiver.url})

        def post(path: str, body: bytes, **headers: str) -> requests.Response:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            sent["Authorization"] = f"Token {supplier.token}"
            answer = requests.post(f"http://{LOOPBACK}:{port}{API}/{path}", body, headers=sent, timeout=60)
            assert answer.ok, answer.text
            return answer

        supplier.stage(single)
        asked = {
            "external_account_number": single["external_account_number"],
            "import_supplier_code": supplier.code,
            "operations_team_name": supplier.team,
        }
        answer = post(
            "account-import-process/process/", json.dumps(asked).encode(), Content_Type="application/json"
        )
        query = urlencode(
            {"import_supplier": supplier.code, "operations_team_name": supplier.team, "mode": "import"}
        )
        batch = post(
            f"batches/?{query}", ndjson([of_batch]), Content_Type=NDJSON, X_Request_ID="upload-7"
        ).json()
        wait_until(lambda: len(box.messages) == 2 and len(receiver.requests) == 3, "all is sent")
    mail.stop()
    single_id = answer.headers["X-Request-ID"]
    first, second = (it["Message-ID"] for it in sorted(box.messages, key=lambda message: str(message["To"])))
    (created, *of_lines) = receiver.ids()
    attempt_id = json.loads(receiver.requests[0][1])["data"]["attempt_id"]
    assert logs.of(single_id) == {
        "POST /v1/data-import/account-import-process/process/ 201",
        f"Attempt {attempt_id} SUCCEEDED, in a set of 1",
        "accounts.create_set 1 account: 1 SUCCEEDED",
        f"Message {created} to {endpoint.id} sent",
        f"Message {first} to customer_email sent",
    }
    batch_id = batch["batch_id"]
    assert logs.of("upload-7") == {
        f"Its work has the request id 'batch {batch_id}'",
        "POST /v1/data-import/batches/ 202",
    }
    assert logs.of(f"batch {batch_id}") == {
        f"batches.run_chunk line 1 of {batch_id}: done",
        *(f"Message {it} to {endpoint.id} sent" for it in of_lines),
        f"Message {second} to customer_email sent",
    }
