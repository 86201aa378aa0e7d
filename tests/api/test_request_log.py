"""Each request has one log line: its content, and what it must not contain."""

import logging
import time

import pytest
from flask.testing import FlaskClient

from migration_service.origin import SERVICE, current_origin

LOGGER = "migration_service.blueprints.requests.lifecycle"


def _lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the lines of requests, without that for the description, which the client reads once."""
    lines = [record for record in caplog.records if record.name == LOGGER]
    return [line for line in lines if vars(line)["route"] != "/v1/openapi.json"]


def test_a_request_is_one_line_with_route_status_time_and_id(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/v1/data-import/account-transfer-status/SECRET_SUPPLIER/0612345678/?name=Jansen"
    with caplog.at_level(logging.INFO, LOGGER):
        client.get(path, headers={"X-Request-ID": "request-7"}, buffered=True)
    (line,) = _lines(caplog)
    told = vars(line)
    assert told["method"] == "GET"
    assert told["status"] == 401
    assert told["request_id"] == "request-7"
    assert (told["address"], told["api_key"]) == (client.environ_base["REMOTE_ADDR"], None)
    assert 0 <= told["duration_ms"] < 1000 * time.monotonic()
    assert told["route"].endswith("/<import_supplier_code>/<number:external_account_number>/")
    for secret in ("SECRET_SUPPLIER", "0612345678", "Jansen"):
        assert secret not in str(told)
    assert current_origin() == SERVICE


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics"])
def test_health_checks_and_metrics_are_not_logged(
    client: FlaskClient, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    with caplog.at_level(logging.INFO, LOGGER):
        client.get(path, buffered=True)
    assert not _lines(caplog)
