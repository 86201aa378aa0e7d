"""/metrics: access, and the metrics. The dashboard and the alert rules use those that exist."""

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import func, text, update
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints import metrics
from migration_service.config import Settings
from migration_service.metrics.shared import add_task_time
from migration_service.models import Batch
from migration_service.services.batches.intake import upload
from migration_service.services.processing.execution import perform_attempt
from migration_service.services.setup.backups import record_backup
from migration_service.tasks.maintenance import count_accounts_for_metrics, sweep_attempts
from migration_service.tasks.resources import WorkerResources
from support.batch_client import BatchClient
from support.factories import MakeClient, json_of
from support.supplier_client import SupplierClient
from support.wave_client import WaveClient

TOKEN = "let Prometheus in"
HERE = {"REMOTE_ADDR": "127.0.0.1"}


def read_samples(client: FlaskClient) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return every sample of /metrics by its name and labels."""
    response = client.get("/metrics", environ_overrides=HERE)
    assert response.status_code == 200
    assert response.content_type.startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def value(samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    """Return one sample."""
    return samples[name, frozenset(labels.items())]


@pytest.mark.parametrize("proxies", [0, 1])
@pytest.mark.parametrize(
    ("environ", "status"),
    [
        ({"REMOTE_ADDR": "127.0.0.1"}, 200),
        ({"REMOTE_ADDR": ""}, 200),
        ({"REMOTE_ADDR": "192.0.2.7"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.7"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_FORWARDED": "for=192.0.2.7"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_REAL_IP": "192.0.2.7"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_VIA": "1.1 proxy"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "elsewhere.example"}, 404),
        ({"REMOTE_ADDR": "::1", "HTTP_HOST": "[::1]:8000"}, 200),
    ],
)
def test_without_a_token_only_clients_of_this_machine_are_answered(
    migrated: Settings, make_client: MakeClient, environ: dict[str, str], status: int, proxies: int
) -> None:
    client = make_client(replace(migrated, trusted_proxies=proxies))
    assert client.get("/metrics", environ_overrides=environ).status_code == status


def test_the_disk_of_uploads_has_a_size_and_less_that_is_free(
    migrated: Settings, make_client: MakeClient, tmp_path: Path
) -> None:
    samples = read_samples(make_client(replace(migrated, upload_folder=str(tmp_path))))
    size = value(samples, "migration_disk_size_bytes", folder="uploads")
    assert size == shutil.disk_usage(tmp_path).total
    assert 0 < value(samples, "migration_disk_free_bytes", folder="uploads") < size


@pytest.mark.parametrize(
    ("authorization", "status"),
    [(f"Bearer {TOKEN}", 200), ("Bearer something else", 401), (TOKEN, 401), ("", 401)],
)
def test_if_a_token_is_set_every_client_has_to_send_it(
    migrated: Settings, make_client: MakeClient, authorization: str, status: int
) -> None:
    client = make_client(replace(migrated, metrics_token=TOKEN))
    headers = {"Authorization": authorization}
    assert client.get("/metrics", environ_overrides=HERE, headers=headers).status_code == status


def test_requests_are_counted_by_the_template_of_their_route(client: FlaskClient) -> None:
    for method, path in (
        ("GET", "/v1/data-import/account-transfer-status/SOME_SUPPLIER/0612345678/"),
        ("GET", "/v1/no/such/path/jan@post.example/"),
        ("BREW", "/health/live"),
    ):
        # Buffered: it is read to its end and closed, as by a server.
        client.open(path, method=method, buffered=True)
    samples = read_samples(client)
    name = "migration_http_request_duration_seconds_count"
    template = (
        "/v1/data-import/account-transfer-status/<import_supplier_code>/<number:external_account_number>/"
    )
    assert value(samples, name, method="GET", route=template, status="401") >= 1
    assert value(samples, name, method="GET", route="none", status="404") >= 1
    assert value(samples, name, method="OTHER", route="none", status="405") >= 1
    told = str(samples)
    assert "0612345678" not in told
    assert "jan@post.example" not in told


def test_accounts_attempts_slots_queues_and_tasks_have_metrics(
    supplier: SupplierClient, worker_resources: WorkerResources, migrated: Settings, make_client: MakeClient
) -> None:
    redis = worker_resources.redis
    redis.delete("migration:metrics:tasks", "migration:metrics:rest")
    numbers = [
        json_of(supplier.stage(payload))["external_account_number"] for payload in supplier.accounts(3)
    ]
    supplier.process(numbers[0])
    perform_attempt(worker_resources.Session, supplier.current_attempt(numbers[0]))
    supplier.process(numbers[1])
    sweep_attempts()
    count_accounts_for_metrics()
    for seconds in (0.004, 0.2, 99.0):
        add_task_time(redis, "accounts.create_set", "SUCCESS", seconds)
    samples = read_samples(make_client(migrated))
    states = {
        state: value(samples, "migration_accounts", supplier=supplier.code, state=state)
        for state in ("IMPORTED", "IN_PROGRESS", "PENDING")
    }
    assert states == {"IMPORTED": 1, "IN_PROGRESS": 1, "PENDING": 1}
    assert value(samples, "migration_attempts_total", outcome="SUCCEEDED", code="") >= 1
    assert value(samples, "migration_attempts_in_progress") >= 1
    assert value(samples, "migration_slots_in_use") >= 1
    assert value(samples, "migration_slots_limit") == 250
    assert value(samples, "migration_sweep_age_seconds") < 60
    assert value(samples, "migration_queue_messages", queue="interactive") >= 1
    task = {"task": "accounts.create_set", "state": "SUCCESS"}
    bucket = "migration_task_duration_seconds_bucket"
    assert value(samples, bucket, le="0.005", **task) == 1
    assert value(samples, bucket, le="0.25", **task) == 2
    assert value(samples, bucket, le="30.0", **task) == 2
    assert value(samples, bucket, le="+Inf", **task) == 3
    assert value(samples, "migration_task_duration_seconds_sum", **task) == pytest.approx(99.204)
    assert value(samples, "migration_part_up", part="database") == 1


def test_the_age_of_the_transaction_that_events_wait_for_is_a_metric(
    sessions: sessionmaker[Session], migrated: Settings, make_client: MakeClient
) -> None:
    name = "migration_event_horizon_age_seconds"
    client = make_client(migrated)
    assert value(read_samples(client), name) == 0
    with sessions() as session, patch.object(metrics, "FRESH_SECONDS", 0.0):
        session.execute(text("SELECT pg_current_xact_id()"))
        first = value(read_samples(client), name)
        assert 0 < first < value(read_samples(client), name)


def test_a_stalled_batch_has_the_time_since_its_last_progress(
    client: FlaskClient,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "FRESH_SECONDS", -1.0)
    batches = BatchClient(supplier, worker_resources)
    batch_id = batches.start(supplier.accounts(1))

    def idle() -> float:
        return value(read_samples(client), "migration_batch_idle_seconds", supplier=supplier.code)

    samples = read_samples(client)
    assert value(samples, "migration_open_batches", supplier=supplier.code, state="RUNNING") == 1
    assert value(samples, "migration_open_batch_lines", supplier=supplier.code, status="PENDING") == 1
    assert idle() < 60
    ago = func.now() - text("interval '5 minutes'")
    with worker_resources.Session.begin() as session:
        session.execute(
            update(Batch).where(Batch.id == UUID(batch_id)).values(runs_since=ago, created_at=ago)
        )
    assert 299 < idle() < 360
    batches.change(batch_id, "pause")
    assert idle() == 0


def test_batches_that_the_error_threshold_paused_and_waves_that_wait_have_metrics(
    client: FlaskClient,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "FRESH_SECONDS", -1.0)
    waves = WaveClient(BatchClient(supplier, worker_resources))

    def read() -> tuple[float, float, float]:
        samples = read_samples(client)
        age = partial(value, samples, "migration_wave_decision_age_seconds", supplier=supplier.code)
        paused = value(samples, "migration_batches_paused_by_errors", supplier=supplier.code)
        return paused, age(found="CLEAN"), age(found="DIFFERS")

    with patch.object(upload, "CHUNK_LINES", 1):
        waves.batches.start([b"{}"] * 3, stop_after_errors=1)
    assert read() == (0, 0, 0)
    waves.batches.work()
    waves.stage(2)
    plan = waves.plan({"size": 1}, {"rest": True})
    waves.act(plan, 1, "start")
    waves.run()
    paused, clean, differs = read()
    assert (paused, clean > 0, differs) == (1, True, 0)
    waves.act(plan, 1, "approve", reason="known")
    assert read() == (1, 0, 0)


def test_refused_lines_of_an_import_count_as_failed_attempts_and_the_count_never_decreases(
    client: FlaskClient,
    supplier: SupplierClient,
    worker_resources: WorkerResources,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "FRESH_SECONDS", -1.0)
    batches = BatchClient(supplier, worker_resources)

    def failed() -> float:
        worker_resources.redis.delete("migration:metrics:rest")
        count_accounts_for_metrics()
        labels = {"outcome": "FAILED", "code": "account_failed_validation"}
        return read_samples(client).get(("migration_attempts_total", frozenset(labels.items())), 0.0)

    before = failed()
    batches.run([b"{}"], "dry-run")
    assert failed() == before
    batch_id = batches.run([*supplier.accounts(1), b"{}", b"{"])["batch_id"]
    assert failed() == before + 2
    supplier.post(f"/batches/{batch_id}/retry-failed/?all=true")
    assert failed() == before + 2
    batches.work()
    assert failed() == before + 4


FOLDER = Path(__file__).resolve().parents[3] / "monitoring"
NAME = re.compile(r"\bmigration_[a-z0-9_]+")
#: Suffixes that the parser removes from the name of a family.
SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "counter": ("_total",), "gauge": ("",)}


@pytest.fixture
def exported(
    client: FlaskClient, worker_resources: WorkerResources, monkeypatch: pytest.MonkeyPatch
) -> set[str]:
    """The name of every sample that /metrics can have."""
    # Another test may have requested it a moment ago.
    monkeypatch.setattr(metrics, "FRESH_SECONDS", -1.0)
    worker_resources.redis.delete("migration:metrics:rest")
    count_accounts_for_metrics()
    with worker_resources.Session.begin() as session:
        record_backup(session)
    text = client.get("/metrics", environ_overrides={"REMOTE_ADDR": "127.0.0.1"}).text
    families = list(text_string_to_metric_families(text))
    return {family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, ())}


@pytest.mark.parametrize("file", ["grafana-dashboard.json", "alerts.yml"])
def test_every_metric_of_a_query_is_exported(file: str, exported: set[str]) -> None:
    asked = set(NAME.findall((FOLDER / file).read_text()))
    assert asked
    assert asked - exported == set()


def test_every_metric_of_the_service_is_on_the_dashboard(exported: set[str]) -> None:
    shown = set(NAME.findall((FOLDER / "grafana-dashboard.json").read_text()))
    ours = {name for name in exported if name.startswith("migration_")}
    stems = {re.sub(r"_(bucket|count|sum)$", "", name) for name in ours}
    on_an_alert_only = {"migration_counted_timestamp_seconds"}
    assert {stem for stem in stems if not any(name.startswith(stem) for name in shown)} == on_an_alert_only


def _alerts() -> dict[str, str]:
    """The runbook of each alert, by its name."""
    text = (FOLDER / "alerts.yml").read_text()
    names = re.findall(r"^      - alert: (\w+)$", text, re.MULTILINE)
    runbooks = re.findall(r'^          runbook_url: "(.+)"$', text, re.MULTILINE)
    return dict(zip(names, runbooks, strict=True))


def test_each_alert_has_its_section_in_the_runbooks_and_each_section_its_alert() -> None:
    page = FOLDER.parent / "docs/operators/runbooks.md"
    sections = re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE)
    assert _alerts() == {name: f"docs/operators/runbooks.md#{name.lower()}" for name in sections}


def test_each_section_says_what_it_means_how_to_find_the_cause_and_what_to_do() -> None:
    page = (FOLDER.parent / "docs/operators/runbooks.md").read_text()
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        found = re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE)
        assert found == ["Meaning.", "Find the cause.", "Do."], section.splitlines()[0]


def test_each_alert_is_tried_in_its_fault() -> None:
    """`make prometheus-check` tries them with promtool."""
    tried = re.findall(r"^  - name: (\w+)$", (FOLDER / "alerts_test.yml").read_text(), re.MULTILINE)
    assert sorted(tried) == sorted(_alerts())
