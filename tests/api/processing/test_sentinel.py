"""Redis behind Sentinels: requests wait while another server becomes the master."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from flask import Flask
from sqlalchemy.orm import Session, sessionmaker

from migration_service.celery_app import create_celery
from migration_service.config import Settings
from migration_service.connections import Sentinels
from migration_service.db import known_commits
from migration_service.tasks.names import CREATE_SET
from migration_service.tasks.publishing import publish
from support.factories import MakeClient, close_celery
from support.sentinels import sentinel_of
from support.servers import EmbeddedServers, wait_until
from support.supplier_client import SupplierClient


def test_accounts_wait_for_another_master(
    embedded_servers: EmbeddedServers,
    migrated: Settings,
    sessions: sessionmaker[Session],
    make_client: MakeClient,
    tmp_path: Path,
) -> None:
    held = patch.object(known_commits, "HOLD_SECONDS", 30.0)
    with held, sentinel_of(embedded_servers, tmp_path) as sentinel:
        settings = replace(migrated, redis_url=sentinel.url)
        client = make_client(settings)
        assert isinstance(client.application, Flask)
        supplier = SupplierClient.create(client.application, sessions)
        first, second = supplier.stage_new(2)

        assert supplier.process(first).status_code == 202
        celery = create_celery(settings)
        sentinel.lose_master()
        assert supplier.status(second).status_code == 200
        assert not sentinel.has_failed_over()
        assert supplier.process(second).status_code == 202
        assert sentinel.has_failed_over()
        wait_until(lambda: publish(celery, CREATE_SET), "the broker is the other master, too")
        close_celery(celery)


@pytest.mark.parametrize(
    "address",
    [
        "redis://one:6379/0",
        "sentinel://one:26379/0",
        "sentinel://one?master_name=m;redis://two",
    ],
)
def test_other_addresses_are_not_of_sentinels(address: str) -> None:
    assert Sentinels.of(address) is None


def test_an_address_of_sentinels_has_the_login_of_both_and_options_of_redis() -> None:
    found = Sentinels.of(
        "sentinel://u:p%40x@one:1/3?master_name=main&sentinel_password=own&protocol=3;sentinel://two"
    )
    assert found is not None
    assert found.addresses == [("one", 1), ("two", 26379)]
    assert found.own_login == {"password": "own"}
    assert found.options == {"username": "u", "password": "p@x", "db": 3, "protocol": 3}
    assert found.broker_url == "sentinel://u:p%40x@one:1/3;sentinel://two"
