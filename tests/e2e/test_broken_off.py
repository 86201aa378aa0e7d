"""An answer whose rest cannot be made is no complete one for whoever reads it."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests
from sqlalchemy import text

from migration_service.app import create_app
from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service_client import Client, ServiceUnreachable, operations
from migration_service_local.servers.ports import LOOPBACK, random_free_port
from support.batch_client import BatchClient
from support.factories import close_celery, disconnect
from support.servers import EmbeddedServers
from support.supplier_client import API, SupplierClient
from support.web_servers import web_server

LINES = 40_000


@pytest.fixture
def servers(prepared_servers: Path) -> Iterator[EmbeddedServers]:
    with EmbeddedServers.copy_of(prepared_servers) as servers:
        yield servers


@pytest.fixture
def batch(servers: EmbeddedServers, settings: Settings) -> Iterator[tuple[str, SupplierClient, str]]:
    """The address of a service, a supplier, and its batch, which is too long for the buffers between them."""
    own = replace(settings, database_url=servers.database_url, redis_url=servers.redis_url)
    app, celery = create_app(own), create_celery(own)
    sessions = celery.resources.Session
    supplier = SupplierClient.create(app, sessions)
    batch_id = BatchClient(supplier, celery.resources).run([b"{}"])["batch_id"]
    with sessions.begin() as session:
        session.execute(
            text("""INSERT INTO batch_line (batch_id, line_number, payload, status, errors)
                    SELECT batch_id, line_number + number, payload, status, errors
                    FROM batch_line, generate_series(1, :lines) AS number"""),
            {"lines": LINES},
        )
    port = random_free_port()
    with web_server(own, port, processes=1):
        yield f"http://{LOOPBACK}:{port}", supplier, batch_id
    close_celery(celery)
    disconnect(app)


def test_a_stream_that_the_service_cannot_go_on_with_is_not_read_to_its_end(
    servers: EmbeddedServers, batch: tuple[str, SupplierClient, str]
) -> None:
    url, supplier, batch_id = batch
    headers = {"Authorization": f"Token {supplier.token}", "Accept": "text/csv"}
    path = f"{url}{API}/batches/{batch_id}/results/"
    answer = requests.get(path, headers=headers, stream=True, timeout=60)
    with Client(url, supplier.api_key, patience=0) as client:
        lines = client.iterate(operations.get_batch_results(batch_id))
        assert next(lines).line_number == 1
        servers.kill("postgres")
        with pytest.raises(ServiceUnreachable, match="get_batch_results broke off"):
            list(lines)
    rows = answer.text.splitlines()
    assert len(rows) < LINES
    with pytest.raises(csv.Error):
        list(csv.reader(rows, strict=True))
