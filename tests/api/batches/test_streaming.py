"""What the client of a streamed answer gets if the database is lost while it is read."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine, event, text
from sqlalchemy.orm import Session, sessionmaker

from migration_service.blueprints.requests.resources import resources
from support.batch_client import BatchClient
from support.factories import json_of


@pytest.fixture
def lose_at(app: Flask, sessions: sessionmaker[Session]) -> Iterator[Callable[[str], None]]:
    """Call it with a part of a statement: the connection is terminated just before it is executed."""
    with app.app_context():
        engine: Engine = resources().Session.kw["bind"]
    marks: list[str] = []

    def terminate(connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if any(mark in statement for mark in marks):
            pid = connection.connection.driver_connection.info.backend_pid
            with sessions() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})

    event.listen(engine, "before_cursor_execute", terminate)
    yield marks.append
    event.remove(engine, "before_cursor_execute", terminate)


@pytest.mark.parametrize("accept", ["application/x-ndjson", "text/csv"])
@pytest.mark.parametrize("path", ["results/", "failed-lines/"])
def test_a_database_that_is_lost_at_the_beginning_is_answered_503(
    batches: BatchClient, lose_at: Callable[[str], None], path: str, accept: str
) -> None:
    batch_id = batches.start([b"{}"], "validate")
    batches.work()
    url, headers = f"/batches/{batch_id}/{path}", {"Accept": accept}
    assert batches.supplier.get(url, headers=headers).status_code == 200
    lose_at("FROM batch_line")
    lost = batches.supplier.get(url, headers=headers)
    assert (lost.status_code, json_of(lost)["code"]) == (503, "service_unavailable")
    assert "Retry-After" in lost.headers
