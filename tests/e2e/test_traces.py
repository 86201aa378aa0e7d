"""What follows an account: one id through all logs, and one trace of its request and its task."""

import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
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
from support.mail_box import SENDER, Mailbox
from support.receivers import Receiver, receiving
from support.servers import wait_until
from support.supplier_client import API, SupplierClient
from support.web_servers import needs_nginx, nginx, web_server
from support.workers import BEAT, worker

pytestmark = pytest.mark.long


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


_QUEUES = "interactive,batch,deliveries,maintenance"
_PROCESS = "account-import-process/process/"


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
def test_one_id_follows_an_account_through_all_logs_and_one_trace_has_its_request_and_task(
    migrated: Settings, supplier: SupplierClient, tmp_path: Path
) -> None:
    single, of_batch = supplier.accounts(2)
    for account, name in ((single, "anne"), (of_batch, "bart")):
        customer = {"given_name": name, "family_name": "de Vries", "email": f"{name}@customers.example"}
        account["customers"] = [customer]
    logs = _Logs(tmp_path / "web.log", tmp_path / "worker.log")
    mail = Controller(box := Mailbox(), hostname=LOOPBACK, port=random_free_port())
    mail.start()
    web = random_free_port()
    traced = {"OTEL_BSP_SCHEDULE_DELAY": "100"}
    variables = {
        "DATABASE_URL": migrated.database_url,
        "REDIS_URL": migrated.redis_url,
        "MIGRATION_SERVICE_SMTP_URL": f"smtp://{LOOPBACK}:{mail.port}",
        "MIGRATION_SERVICE_EMAIL_FROM": SENDER,
    }
    with ExitStack() as stack:
        receiver, collector = (stack.enter_context(receiving()) for _ in range(2))
        collector.answer(200)
        traced["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url.removesuffix("/events")
        stack.enter_context(worker(_QUEUES, tmp_path, *BEAT, "-c", "1", **variables, **traced))
        stack.enter_context(web_server(migrated, web, traced, processes=1, log=logs.web))
        port = stack.enter_context(nginx(web))
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
        answer = post(_PROCESS, json.dumps(asked).encode(), Content_Type="application/json")
        query = urlencode(
            {"import_supplier": supplier.code, "operations_team_name": supplier.team, "mode": "import"}
        )
        batch = post(
            f"batches/?{query}", ndjson([of_batch]), Content_Type=NDJSON, X_Request_ID="upload-7"
        ).json()
        wait_until(lambda: len(box.messages) == 2 and len(receiver.requests) == 3, "all is sent")
        find_request = partial(_find, collector, "migration-service-web", f"POST {API}/{_PROCESS}")
        find_task = partial(_find, collector, "migration-service-worker", "run/accounts.create_set")
        wait_until(lambda: find_request() and find_task(), "the spans of the request and of the task")
        request, task, spans = find_request(), find_task(), _spans(collector)
    mail.stop()
    assert request and task
    assert task.trace_id == request.trace_id
    assert {"migration-service-web", "migration-service-worker"} <= {
        service
        for service, span in spans
        if span.trace_id == request.trace_id and span.name.startswith(("SELECT", "WITH"))
    }
    assert "de Vries" not in str(spans)
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
