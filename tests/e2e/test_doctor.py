"""The doctor with a running worker and beat, their heartbeats, and the log line of each task."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from migration_service.config import Settings
from migration_service.connections import make_redis
from migration_service.services.processing.slots import Slots
from migration_service.tasks.names import QUEUES
from support.factories import json_of
from support.servers import COMMAND, wait_until
from support.supplier_client import SupplierClient
from support.web_servers import ROOT
from support.workers import BEAT, worker

pytestmark = pytest.mark.long

PARTS = [
    *("settings", "database", "redis", "revisions", "clocks"),
    *(
        "queue interactive",
        "queue batch",
        "queue vendors",
        "queue deliveries",
        "queue maintenance",
        "beat",
        "slots",
    ),
    "e-mail",
    "certificates",
    "statements",
    *("attempts", "suppliers", "batches", "vendors", "disk data", "disk uploads", "events"),
]


def environment_of(settings: Settings, home: Path) -> dict[str, str]:
    return os.environ | {
        "MIGRATION_SERVICE_HOME": str(home),
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": settings.secret_key,
        "MIGRATION_SERVICE_CERTIFICATE_KEY": settings.certificate_key,
        "PYTHONPATH": str(ROOT),
    }


def run_doctor(environment: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Return the exit status of the doctor, and its verdict on each part."""
    done = subprocess.run(
        [str(COMMAND), "doctor", "--json"], env=environment, capture_output=True, text=True, check=False
    )
    findings = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(
        bool(finding["advice"]) == (finding["verdict"] in ("wrong", "warning")) for finding in findings
    )
    return done.returncode, {finding["part"]: finding["verdict"] for finding in findings}


def test_if_everything_runs_the_doctor_reports_no_problem(
    migrated: Settings, supplier: SupplierClient, tmp_path: Path
) -> None:
    heartbeat, environment = tmp_path / "heartbeat", environment_of(migrated, tmp_path)
    variables = environment | {"MIGRATION_SERVICE_HEARTBEAT_FILE": str(heartbeat)}
    with worker(",".join(QUEUES), tmp_path, *BEAT, "-c", "2", **variables):
        wait_until(heartbeat.exists, "the worker's sign of life")
        (number,) = supplier.stage_new()
        supplier.process(number)
        wait_until(lambda: json_of(supplier.status(number))["status"] == "COMPLETED", "the account")
        with make_redis(migrated.redis_url) as redis:
            # Not one of a test before this one.
            wait_until(lambda: (Slots(redis).seconds_since_reconcile() or 99) < 5, "a sweep")
        status, verdicts = run_doctor(environment)
        assert set(verdicts) == set(PARTS)
        # Suppliers, batches and vendors include those of other tests.
        others = {"suppliers", "batches", "vendors"}
        assert {part: it for part, it in verdicts.items() if it != "ok" and part not in others} == {}
        assert status == 0
        few = {"MIGRATION_SERVICE_BATCH_CHUNKS_IN_FLIGHT": "1"}
        assert run_doctor(environment | few)[1]["queue batch"] == "warning"


def test_a_missing_part_is_reported_with_advice(migrated: Settings, tmp_path: Path) -> None:
    status, verdicts = run_doctor(environment_of(migrated, tmp_path))
    assert status == 1
    assert verdicts["database"] == "ok"
    for queue in ("interactive", "batch", "vendors", "deliveries", "maintenance"):
        assert verdicts[f"queue {queue}"] == "wrong"


def test_checks_that_need_an_unavailable_part_are_left_out(migrated: Settings, tmp_path: Path) -> None:
    environment = environment_of(migrated, tmp_path) | {"REDIS_URL": "redis://127.0.0.1:1/0"}
    status, verdicts = run_doctor(environment)
    assert status == 1
    assert verdicts["redis"] == "wrong"
    assert verdicts["clocks"] == verdicts["workers"] == verdicts["slots"] == "unknown"
    assert verdicts["revisions"] == verdicts["attempts"] == "ok"
