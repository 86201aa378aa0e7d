"""The health checks: what a load balancer is told of the database and of Redis."""

from dataclasses import replace
from importlib.metadata import version

import psycopg
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from migration_service.blueprints.requests.resources import resources
from migration_service.config import Settings
from migration_service.db.needed_tables import NEEDED
from migration_service.db.revisions import newest_revision, upgrade
from migration_service_local.servers.postgres import DATABASE
from support.factories import MakeClient
from support.servers import EmbeddedServers

_READY = {"status": "ok", "database": "ok", "redis": "ok"}


def test_a_process_that_answers_is_alive(client: FlaskClient) -> None:
    answer = client.get("/health/live")
    assert (answer.status_code, answer.json) == (
        200,
        {"status": "ok", "version": version("migration-service")},
    )


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


def test_a_process_is_ready_only_if_the_tables_are_as_new_as_its_code(
    embedded_servers: EmbeddedServers, make_client: MakeClient, migrated: Settings
) -> None:
    assert newest_revision() == NEEDED
    with embedded_servers.new_database() as (database_url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        own = replace(migrated, database_url=database_url)
        client = make_client(own)
        expected = [
            ("0000", 503, "outdated"),
            ("9999", 200, "ok"),  # older code on newer tables
            ("0000", 200, "ok"),  # it asks until they were new enough once
        ]
        with psycopg.connect(owner_url, autocommit=True) as owner:
            for revision, status, database in expected:
                owner.execute("UPDATE alembic_version SET version_num = %s", [revision])
                ready = client.get("/health/ready")
                assert (ready.status_code, ready.json and ready.json["database"]) == (status, database), (
                    revision
                )
                assert client.get("/health/pod").status_code == status


def test_a_pod_that_was_ready_stays_so_while_there_is_no_database(
    embedded_servers: EmbeddedServers, make_client: MakeClient, migrated: Settings
) -> None:
    nobody = make_client(replace(migrated, database_url="postgresql://nobody@127.0.0.1:1/none"))
    assert nobody.get("/health/pod").status_code == 503, "it has never seen the tables"
    with embedded_servers.new_database() as (database_url, owner_url):
        upgrade(owner_url, runtime_role=DATABASE)
        client = make_client(replace(migrated, database_url=database_url))
        assert client.get("/health/pod").json == {"status": "ok"}
    assert client.get("/health/ready").status_code == 503
    assert client.get("/health/pod").status_code == 200
