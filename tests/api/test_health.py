"""The health checks: what a load balancer is told of the database and of Redis."""

from dataclasses import replace

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from support.factories import MakeClient

_READY = {"status": "ok", "database": "ok", "redis": "ok"}


def test_a_process_that_answers_is_alive(client: FlaskClient) -> None:
    answer = client.get("/health/live")
    assert (answer.status_code, answer.json) == (200, {"status": "ok"})


def test_a_process_is_ready_if_its_database_answers(client: FlaskClient) -> None:
    answer = client.get("/health/ready")
    assert (answer.status_code, answer.json) == (200, _READY)


def test_a_process_is_ready_without_redis(make_client: MakeClient, migrated: Settings) -> None:
    answer = make_client(replace(migrated, redis_url="redis://127.0.0.1:1/0")).get("/health/ready")
    assert (answer.status_code, answer.json) == (200, _READY | {"redis": "unavailable"})


def test_a_process_is_not_ready_without_a_database(make_client: MakeClient, migrated: Settings) -> None:
    nobody = "postgresql://nobody@127.0.0.1:1/none"
    answer = make_client(replace(migrated, database_url=nobody)).get("/health/ready")
    away = _READY | {"status": "away", "database": "unavailable"}
    assert (answer.status_code, answer.json) == (503, away)


def test_a_connection_to_a_server_that_only_reads_is_replaced(app: Flask, client: FlaskClient) -> None:
    with app.app_context(), resources().Session.kw["bind"].connect() as connection:
        connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
        connection.commit()
    assert client.get("/health/ready").json == _READY
